# SPDX-License-Identifier: Apache-2.0
# perl_dump.pl FILE: how many values of each kind and package Devel::MAT found, one a line with tabs between.
use strict;
use warnings;
use Devel::MAT;

my %kinds = (BOOL => 'scalar', REF => 'scalar', SCALAR => 'scalar', UNDEF => 'scalar', PAD => 'array', STASH => 'hash');
my %count;

$SIG{__WARN__} = sub { };
for my $value (Devel::MAT->load($ARGV[0])->dumpfile->heap) {
	my $kind = $kinds{$value->type} // lc $value->type;
	my $package = $value->blessed && $kind ne 'code' ? $value->blessed->stashname : '';
	$count{"$kind\t$package"}++;
}
print "$_\t$count{$_}\n" for sort keys %count;
