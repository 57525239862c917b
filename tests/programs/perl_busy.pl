# SPDX-License-Identifier: Apache-2.0
# Makes and drops values of every kind for as long as it is let, and never waits.
use strict;
use warnings;

our (%table, @list, $text);
$| = 1;
print "READY\n";
for (my $n = 0;; $n++) {
	$table{$n % 5000} = {number => $n, list => [1 .. $n % 50], code => sub { $n }};
	delete $table{($n * 7) % 5000} if $n % 3 == 0;
	push @list, bless \(my $copy = "text $n" x ($n % 100)), 'Busy::Text';
	splice @list, 0, 500 if @list > 3000;
	$text = join ',', map { $_ * 2 } 1 .. $n % 300;
	substr($text, 0, 10) = '' if length $text > 20;
	my $match = $text =~ qr/(\d+),(\d+),$n?/;
	local $@;
	eval "sub { my \$x = $n; \$x + 1 }" if $n % 200 == 0;
	eval { die {number => $n} } if $n % 50 == 0;
	open my $handle, '<', \$text if $n % 20 == 0;
	%table = () if $n % 100_000 == 0;
}
