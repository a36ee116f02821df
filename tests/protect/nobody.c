/* Executes a program as a user without any right.   nobody COMMAND... */
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
   if (argc < 2)
      return fputs("usage: nobody COMMAND...\n", stderr), 2;
   if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
      return perror("nobody"), 1;
   execv(argv[1], argv + 1);
   return perror(argv[1]), 1;
}
