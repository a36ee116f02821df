// A function of a team that throws: the program ends, as one does whose thread throws.   throws
#include "homing/runtime.h"
#include <stdexcept>

static void work(unsigned, void *) { throw std::runtime_error("thrown by a member of a team"); }

int main()
{
   homing_rset *set;
   if (homing_rset_open("all", &set) != HOMING_OK)
      return 2;
   homing_team_run(set, HOMING_FILL, 2, work, nullptr);
   return 1;
}
