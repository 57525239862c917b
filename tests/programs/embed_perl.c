/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed_perl: a program with two perls of its own, which make 1,000 and 3,000 objects of Embed::Item. The memory
 * that the program itself holds is no perl's.
 */
#include <EXTERN.h>
#include <perl.h>
#include <unistd.h>

static PerlInterpreter *start_perl(const char *script)
{
	char *arguments[] = { "embed_perl", "-e", (char *)script, NULL };
	PerlInterpreter *my_perl = perl_alloc();

	PERL_SET_CONTEXT(my_perl);
	perl_construct(my_perl);
	PL_exit_flags |= PERL_EXIT_DESTRUCT_END;
	if (perl_parse(my_perl, NULL, 3, arguments, NULL) || perl_run(my_perl))
		exit(1);
	return my_perl;
}

int main(int argc, char **argv, char **environment)
{
	PerlInterpreter *one, *other;
	char *own[100];

	PERL_SYS_INIT3(&argc, &argv, &environment);
	one = start_perl("our @items = map { bless {number => $_}, 'Embed::Item' } 1 .. 1000");
	other = start_perl("our @items = map { bless {number => $_}, 'Embed::Item' } 1 .. 3000;"
			   "our $text = 'x' x 50000; $text .= 'y'");
	for (int i = 0; i < 100; i++)
		memset(own[i] = malloc(5000), i, 5000);
	printf("READY {\"items\": 4000, \"own\": %d}\n", own[7][0] == 7 ? 100 : 0);
	fflush(stdout);
	pause();
	return one == other;
}
