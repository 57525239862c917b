# SPDX-License-Identifier: Apache-2.0
# Values that refer to each other in every way there is. Says READY {json}: the addresses that paths must come to, how
# many values nothing reaches, and counts; then it stops itself, in the middle of a recursion.
use strict;
use warnings;
use Scalar::Util qw(weaken refaddr);

my $users = shift || 200;
my $loops = 20;

package App::User {
	our (%REG, @LIST);
	our $COUNT = 0;
	sub new {
		my ($class, $id) = @_;
		my $self = bless {id => $id, name => "user name $id", tags => [map { "tag" . ($_ * $id % 97) } 1 .. 4],
			prefs => {theme => 'dark', n => $id * 1.5, "odd \$key\n" => undef}}, $class;
		$COUNT++;
		$REG{$id} = $self;
	}
}
package App::Session {
	my @live;
	sub new {
		my ($class, $user) = @_;
		my $hits = 0;
		my $buffer = "s" x 64;
		my $self = bless {user => $user, touch => sub { $hits++; $buffer .= "x"; $hits }}, $class;
		push @live, $self;
		$self;
	}
	sub first { $live[0] }
}
package App::Node { # parent and children hold each other
	sub new {
		my ($class, $parent) = @_;
		my $self = bless {parent => $parent, kids => [], payload => "LEAK" x 40}, $class;
		push @{$parent->{kids}}, $self if $parent;
		$self;
	}
}
package App::Tied { sub TIEHASH { bless {}, shift } sub FETCH { 1 } sub STORE { } }
package App::Loud { use overload '""' => sub { "loud" }, '+' => \&add; sub add { 1 } sub new { bless \(my $x = 7), shift } }
package App::Derived { our @ISA = ('App::User'); sub SUPER_new { my $c = shift; $c->SUPER::new(@_) } }

package main;
use constant {LIMIT => 42, NAMES => ['a', 'b']};

App::User->new($_) for 1 .. $users;
push @App::User::LIST, App::Derived->new(1_000_000 + $_) for 1 .. 3;
App::Derived->new(2_000_000)->can('new');
App::Session->new($App::User::REG{$_}) for 1 .. 50;
for (1 .. $loops) {
	my $root = App::Node->new(undef);
	App::Node->new($root) for 1 .. 6;
}
my @weak = @App::User::REG{1 .. 10};
weaken($_) for @weak;
tie my %tied, 'App::Tied';
our $loud = App::Loud->new;
our @patterns = map { qr/^(?:item$_)(\w+)-(\d{1,$_})$/i } 1 .. 20;
our $copied = "copied on write " x 20;
our $copy = $copied;
our $wide = "\x{263a}smile";
our %counted = map { $_ => 1 } 'a' .. 'z';
our ($positive, $negative, $real, $large, $none) = (17, -3, 2.5, 18446744073709551615, undef);
our @shifted = (1 .. 100);
shift @shifted for 1 .. 10;
our $chopped = "0123456789" x 10;
$chopped =~ s/^.{20}//;
our $code = \&App::User::new;
our $handle;
open $handle, '<', $0 or die;
our $lines = <$handle>;
format STDOUT =
@<<<
$lines
.
"needle in a haystack" =~ /(n\w+)/;
local $App::User::COUNT = 3;
my $sort = join ',', sort { $b <=> $a } 1 .. 5;
eval 'sub from_string { my $inner = shift; return sub { $inner } } 1' or die;
our @made = map { from_string($_) } 1 .. 5;

sub address { sprintf "0x%x", refaddr $_[0] }

sub deep {
	my ($n, @rest) = @_;
	my $kept = {level => $n};
	return deep($n - 1, $kept) if $n;
	stop();
}

sub stop {
	my $first = App::Session::first();
	my $nodes = 7 * $loops;
	require JSON::PP;
	$| = 1;
	print 'READY ', JSON::PP->new->canonical->encode({
		tag => address(\$App::User::REG{17}{tags}[0]),
		user => address($App::User::REG{17}),
		session => address($first),
		closure => address($first->{touch}),
		odd => address(\$App::User::REG{17}{prefs}{"odd \$key\n"}),
		sub => address(\&App::User::new),
		weak => address(\$weak[0]),
		weak_to => address($weak[0]),
		handle => address(*{$handle}{IO}),
		glob => address(\*App::User::REG),
		pattern => address($patterns[3]),
		stash => address(\%App::User::),
		tied => address(tied %tied),
		deepest => address(\@_),
		(map { my $name = $_; no strict 'refs'; ("value $name" => address(\${"main::$name"})) }
			qw(positive negative real large none copied wide loud chopped code)),
		shifted => address(\@shifted),
		counted => address(\%counted),
		leaked => {hash => $nodes, array => $nodes, scalar => 3 * $nodes + $nodes - $loops},
		objects => {'App::User' => $users, 'App::Derived' => 4, 'App::Session' => 50, 'App::Node' => $nodes},
	}), "\n";
	kill STOP => $$;
}

deep(20, 'first');
