/* A program with OpenMP whose child, made between parallel regions, ends by `exit`.   forks ROUNDS */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
   long sum = 0, rounds = argc == 2 ? atol(argv[1]) : 0;
   for (long round = 0; round < rounds; round++) {
#pragma omp parallel for reduction(+ : sum)
      for (long i = 0; i < 100; i++)
         sum += i;
#pragma omp parallel
#pragma omp single
      sum++;
      if (round == rounds / 2) {
         int status;
         pid_t child = fork();
         if (child == 0)
            exit(7);
         if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            return fputs("forks: the child ended otherwise\n", stderr), 1;
      }
   }
   printf("%ld\n", sum);
   return 0;
}
