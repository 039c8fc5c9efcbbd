/* A program that is built as programs for users are, whatever this build is for:
 * test_hardening.py reads its ELF file, and overruns its buffer. */
#include <stdio.h>
#include <string.h>

int
main(int argc, char *argv[])
{
    char text[8];

    /* The compiler cannot know the length, so the copy is checked as it runs. */
    (void)strcpy(text, argv[argc - 1]);
    return puts(text) < 0;
}
