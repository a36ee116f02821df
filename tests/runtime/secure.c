/* Opens the set `mine` of the user's own file, and says what came of it.   secure */
#include "homing/runtime.h"
#include <stdio.h>

int main(void)
{
   struct homing_rset *set;
   char reason[500] = "";
   int status = homing_rset_open("mine", &set);
   if (status == HOMING_OK)
      homing_rset_close(set);
   else
      homing_reason(reason, sizeof reason);
   printf("%s%s\n", status == HOMING_OK ? "opened" : "refused: ", reason);
   return 0;
}
