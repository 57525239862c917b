# SPDX-License-Identifier: Apache-2.0
# perl_threads.pl THREADS [shared]: each thread makes objects of its own class, thread n 1000 n of them. Says READY
# when all have, and waits for its input. With "shared" some variables are shared; these have
# an interpreter of their own.
use strict;
use warnings;
use threads;

my ($number, $shared) = @ARGV;
our @mine = map { bless [$_], 'Main::Item' } 1 .. 5000;

$| = 1;
if ($shared) {
	require threads::shared;
	our @common;
	threads::shared::share(\@common);
	push @common, threads::shared::shared_clone({number => $_, text => "text $_"}) for 1 .. 500;
}
my @ended = map { threads->create(sub { my @gone = map { [$_] } 1 .. 100; return 1 }) } 1 .. 2;
$_->join for @ended;
pipe my $reader, my $writer or die $!;
my @threads = map {
	my $n = $_;
	threads->create(sub {
		our @own = map { bless {thread => $n, item => $_}, "Thread::Item$n" } 1 .. 1000 * $n;
		syswrite $writer, 'x';
		sleep 1000 while 1;
	});
} 1 .. $number;
my $said = '';
while (length $said < $number) {
	sysread $reader, $said, $number, length $said or die $!;
}
print "READY {}\n";
sysread STDIN, $said, 1;
