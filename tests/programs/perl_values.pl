# SPDX-License-Identifier: Apache-2.0
# Values of known number, size and name. Says what it made as one line of JSON after READY, then stops itself.
# With DUMP=FILE it first lets Devel::MAT write what is there; nothing is made after that. With WAIT=1 it waits for its
# input instead.
use strict;
use warnings;
use B ();
use IO::File ();
use Scalar::Util qw(weaken);

package Fix::Hash {
	sub new { my ($class, %fields) = @_; return bless {%fields}, $class }
	sub name { $_[0]{name} }
}
package Fix::Hash::Child { our @ISA = 'Fix::Hash'; }
package Fix::Array { sub new { my $class = shift; return bless [@_], $class } }
package Fix::Nest { sub new { my ($class, $inner) = @_; return bless [$inner], $class } }
package Fix::Counter {
	our @lines = (__LINE__ + 2, __LINE__ + 4);
	sub make { my $n = shift; return sub {
		return $n++;
	} }
	sub other { my $n = shift; return sub { $n-- } }
}
package Fix::Equal { use overload '==' => sub { 1 }, 'bool' => sub { 1 }, '""' => sub { 'equal' }; }

package main;

our %keep;
my (%truth, %size);

# How much malloc gives for so many bytes: its own word before them, in steps of 16, 32 at least.
sub chunk { my $size = ($_[0] + 8 + 15) & ~15; return $size < 32 ? 32 : $size }

# ---- how many --------------------------------------------------------------------------------------------------

sub make_objects {
	$keep{hashes} = [map { Fix::Hash->new(name => "n$_", id => $_) } 1 .. 1500];
	$keep{children} = [map { Fix::Hash::Child->new(id => $_) } 1 .. 250];
	$keep{arrays} = [map { Fix::Array->new(1 .. $_ % 7) } 1 .. 700];
	$keep{scalars} = [map { my $n = $_; bless \$n, 'Fix::Scalar' } 1 .. 300];
	$keep{references} = [map { my $to = []; bless \$to, 'Fix::Reference' } 1 .. 120];
	$keep{globs} = [map { bless gensym(), 'Fix::Glob' } 1 .. 25];
	$keep{expressions} = [map { bless qr/^fix$_(\d+)/, 'Fix::Regexp' } 1 .. 30];
	$keep{equal} = [map { bless [$_], 'Fix::Equal' } 1 .. 15];
	$keep{handles} = [map { IO::File->new('/dev/null', '<') } 1 .. 20];
	$truth{objects} = {'hash Fix::Hash' => 1500, 'hash Fix::Hash::Child' => 250, 'array Fix::Array' => 700,
		'scalar Fix::Scalar' => 300, 'scalar Fix::Reference' => 120, 'glob Fix::Glob' => 25,
		'regexp Fix::Regexp' => 30, 'array Fix::Equal' => 15, 'glob IO::File' => 20};
}

sub gensym {
	no strict 'refs';
	my $name = 'G' . ++$truth{globs};
	my $glob = \*{"Fix::$name"};
	delete $Fix::{$name};
	return $glob;
}

sub make_nest {
	my $inner;
	$inner = Fix::Nest->new($inner) for 1 .. 5000;
	$keep{nest} = $inner;
	$truth{objects}{'array Fix::Nest'} = 5000;
}

# A sub that makes closures is there itself, and so is what they are cloned from.
sub make_code {
	$keep{counters} = [map { Fix::Counter::make($_) } 1 .. 333];
	$keep{others} = [map { Fix::Counter::other($_) } 1 .. 44];
	my ($file) = __FILE__ =~ m{([^/]+)$};
	$truth{code} = {'Fix::Hash::new' => 1, 'Fix::Hash::name' => 1, 'Fix::Counter::make' => 1, 'main::make_code' => 1,
		"Fix::Counter::__ANON__ ($file:$Fix::Counter::lines[0])" => 334,
		"Fix::Counter::__ANON__ ($file:$Fix::Counter::lines[1])" => 45};
}

sub make_formats {
	no strict 'refs';
	eval "format FIX$_ =\n@<<<< @>>>>\n\$keep{left}, \$keep{right}\n.\n1" or die $@ for 1 .. 3;
	$truth{formats} = 3;
}

# ---- how large -------------------------------------------------------------------------------------------------

sub measure { my ($class, $bytes) = @_; $size{$class} += $bytes; return }

sub make_strings {
	for my $n (1 .. 200) {
		my $text = '';
		$text .= 'y' x (100 + 7 * $n);
		push @{$keep{texts}}, bless \$text, 'Fix::Text';
		measure('Fix::Text', chunk(B::svref_2object(\$text)->LEN));
	}
	my $slack = 'z' x 100_000;
	substr($slack, 100) = '';
	$keep{slack} = bless \$slack, 'Fix::Slack';
	measure('Fix::Slack', chunk(B::svref_2object(\$slack)->LEN));
	for my $cut (50, 1000, 70_000) { # up to 255 is kept in a byte, more in a word
		my $chopped = '';
		$chopped .= 'c' x 100_000;
		substr($chopped, 0, $cut, '');
		push @{$keep{chopped}}, bless \$chopped, 'Fix::Chopped';
		my $text = B::svref_2object(\$chopped);
		$truth{ook}++ if $text->FLAGS & B::SVf_OOK();
		measure('Fix::Chopped', chunk($text->LEN + $cut));
	}
	my $wide = "\x{263a}" x 30_000;
	$wide .= 'x';
	$keep{wide} = bless \$wide, 'Fix::Wide';
	measure('Fix::Wide', chunk(B::svref_2object(\$wide)->LEN));
}

# Copies of one string have one buffer, as long as none of them is written to.
sub make_shared {
	my $text = 'shared ' x 5000;
	my (%seen, $len);
	for (1 .. 60) {
		my $copy = $text;
		push @{$keep{shared}}, bless \$copy, 'Fix::Shared';
		$seen{unpack 'J', pack 'p', $copy} = chunk(B::svref_2object(\$copy)->LEN);
	}
	$keep{original} = bless \$text, 'Fix::Shared';
	$seen{unpack 'J', pack 'p', $text} = chunk(B::svref_2object(\$text)->LEN);
	$truth{shared} = {copies => 61, buffers => scalar keys %seen, bytes => 0};
	$truth{shared}{bytes} += $_ for values %seen;
}

sub make_arrays {
	for my $n (1 .. 50) {
		my $items = bless [1 .. 100 * $n], 'Fix::Items';
		push @{$keep{items}}, $items;
		measure('Fix::Items', chunk(8 * (B::svref_2object($items)->MAX + 1)));
	}
	my $shifted = bless [1 .. 1000], 'Fix::Shifted';
	shift @$shifted for 1 .. 300;
	$keep{shifted} = $shifted;
	measure('Fix::Shifted', chunk(8 * (B::svref_2object($shifted)->MAX + 1 + 300)));
	my $reserved = bless [], 'Fix::Reserved';
	$#$reserved = 9999;
	$#$reserved = 9;
	$keep{reserved} = $reserved;
	measure('Fix::Reserved', chunk(8 * (B::svref_2object($reserved)->MAX + 1)));
}

sub make_hashes {
	for my $n (10, 1000, 3000) {
		my $hash = bless {map { ("key $_" => undef) } 1 .. $n}, 'Fix::Table';
		push @{$keep{tables}}, $hash;
		measure('Fix::Table', chunk(8 * (B::svref_2object($hash)->MAX + 1)));
		$truth{entries} += $n;
	}
}

# ---- what is special -------------------------------------------------------------------------------------------

package Fix::Tie {
	sub TIEHASH { bless {at => $_[1]}, $_[0] }
	sub TIEARRAY { bless [], $_[0] }
	sub TIESCALAR { bless {}, $_[0] }
	sub FETCH { 1 }
	sub STORE { }
}

package main;

sub make_magic {
	for (1 .. 11) {
		tie my %hash, 'Fix::Tie', $_;
		tie my $scalar, 'Fix::Tie';
		push @{$keep{tied}}, \%hash, \$scalar;
	}
	my @weak = @{$keep{hashes}}[0 .. 99];
	weaken($_) for @weak;
	$keep{weak} = \@weak;
	my $text = "a\x{263a}b" x 1000;
	$text =~ /b/g;
	my $length = length $text; # the length in characters is remembered in magic
	$keep{position} = \$text;
	$keep{taken} = [map { \substr(${$keep{position}}, $_, 1) } 1 .. 12];
	$truth{magic} = {P => 11, q => 11, w => 1, g => 1};
}

# ----------------------------------------------------------------------------------------------------------------

sub json {
	my $value = shift;
	return '{' . join(', ', map { qq("$_": ) . json($value->{$_}) } sort keys %$value) . '}' if ref $value eq 'HASH';
	return '[' . join(', ', map { json($_) } @$value) . ']' if ref $value eq 'ARRAY';
	return $value =~ /^-?\d+$/ ? $value : qq("$value");
}

$| = 1;
make_objects();
make_nest();
make_code();
make_formats();
make_strings();
make_shared();
make_arrays();
make_hashes();
make_magic();
$truth{sizes} = \%size;
my @out;
if ($ENV{DUMP}) {
	require Devel::MAT::Dumper;
	open $out[0], '>', '/dev/null' or die $!;
	open $out[1], '>', $ENV{DUMP} or die $!;
}
print 'READY ' . json(\%truth) . "\n";
my @signal = (0, $ENV{WAIT} ? 0 : 'STOP'); # the second time round whatever this needs is there already
for my $turn (0, 1) {
	if (@out) {
		Devel::MAT::Dumper::dumpfh($out[$turn]);
		close $out[$turn];
	}
	kill $signal[$turn] => $$;
}
sysread STDIN, $keep{input}, 1;
