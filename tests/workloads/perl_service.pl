# SPDX-License-Identifier: Apache-2.0
# perl_service.pl [SCALE]: a heap like that of a long-running service, of perl's own modules only: users in a registry,
# sessions that hold closures, a tree that nobody can free, caches of numbers and of long strings, decoded JSON,
# expressions, and the holes that what is gone left. SCALE 10 makes about 70 MB.
use strict;
use warnings;
use Data::Dumper ();
use Digest::MD5 qw(md5_hex);
use Encode ();
use File::Temp ();
use HTTP::Tiny;
use JSON::PP ();
use List::Util qw(sum);
use POSIX ();
use Scalar::Util qw(weaken);
use Storable qw(dclone);
use Text::ParseWords qw(shellwords);
use Time::Local ();

my $scale = $ARGV[0] || 10;
my %truth;

package Service::User {
	our %REGISTRY;
	sub new {
		my ($class, $id) = @_;
		my $self = bless {id => $id, name => "user name $id", mail => "user$id\@example.org",
			tags => [map { 'tag' . ($_ * $id % 97) } 1 .. 4], wishes => {theme => 'dark', size => $id * 1.5}}, $class;
		return $REGISTRY{$id} = $self;
	}
}
package Service::Session {
	my @live;
	sub new {
		my ($class, $user) = @_;
		my $hits = 0;
		my $self = bless {user => $user, touch => sub { return $hits++ }, key => Digest::MD5::md5_hex($user->{id})}, $class;
		Scalar::Util::weaken($self->{user});
		push @live, $self;
		return $self;
	}
}
package Service::Node { # parents and children hold each other: never freed
	sub new {
		my ($class, $parent) = @_;
		my $self = bless {parent => $parent, children => [], load => 'LEAK' x 40}, $class;
		push @{$parent->{children}}, $self if $parent;
		return $self;
	}
}
package Service::Cache { our (%CACHE, @LONG); }
package main;

sub deep {
	no warnings 'recursion';
	my ($n, $from) = @_;
	my @own = ($n) x 3;
	my %own = (n => $n);
	return $n <= 0 ? 0 : 1 + deep($n - 1, \@own);
}

my @users = map { Service::User->new($_) } 1 .. 1000 * $scale;
Service::Session->new($_) for @users[0 .. 400 * $scale - 1];
for (1 .. 75 * $scale) {
	my $root = Service::Node->new;
	Service::Node->new($root) for 1 .. 6;
}
$Service::Cache::CACHE{"matrix$_"} = [map { [(1.5) x 50] } 1 .. 50] for 1 .. $scale;
$Service::Cache::CACHE{words} = {map { ("word$_" => $_) } 1 .. 3000 * $scale};
push @Service::Cache::LONG, chr(97 + $_ % 26) x (1 << 18) for 1 .. 2 * $scale;
push @Service::Cache::LONG, "\x{263a}" x 100_000;
my $lexical = 'B' x (1 << 20);
my @expressions = map { my $k = $_; qr/^(?:item$k)(\w+)-(\d{1,9})$/i } 1 .. 30 * $scale;
my $json = JSON::PP->new;
my $decoded = $json->decode($json->encode([map { {a => $_, b => [1 .. 5]} } 1 .. 100 * $scale]));
my $copied = dclone($decoded);
my $client = HTTP::Tiny->new;
my $file = File::Temp->new;
print $file Data::Dumper::Dumper($decoded->[0]);
my $bytes = Encode::encode('UTF-16', "\x{263a}" x 1000);
deep(2000);
{ my @gone = map { {x => $_, y => "y$_"} } 1 .. 2000 * $scale; }
my @weak = @users[0 .. 99];
weaken($_) for @weak;
%truth = ('Service::User' => 1000 * $scale, 'Service::Session' => 400 * $scale, 'Service::Node' => 525 * $scale,
	'HTTP::Tiny' => 1);
$| = 1;
print 'READY {', join(', ', map { qq("$_": $truth{$_}) } sort keys %truth), "}\n";
kill STOP => $$;
