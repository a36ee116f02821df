! SPDX-License-Identifier: MIT OR Apache-2.0
!
! libhoming for Fortran 2003 and later: compile this file with the program. runtime.h says what the functions do; texts
! end with c_null_char, `settings`, `name` and `own` may be c_null_ptr, a set is a c_ptr.
module homing
   use, intrinsic :: iso_c_binding
   implicit none

   ! Statuses.
   integer(c_int), parameter :: HOMING_OK = 0, HOMING_ONE_NODE = 1, HOMING_NO_SOURCE = 2, HOMING_RECORDED = 3
   integer(c_int), parameter :: HOMING_SECURE = 4, HOMING_FORKED = 5, HOMING_ENDED = 6, HOMING_BAD_ARGUMENT = -1
   integer(c_int), parameter :: HOMING_NOT_STARTED = -2, HOMING_STARTED = -3, HOMING_FAILED = -4
   ! Which memory of a set an allocation has.
   integer(c_int), parameter :: HOMING_FLOAT = 0, HOMING_LOCAL = 1, HOMING_REMOTE = 2, HOMING_STRIPED = 3
   ! Which CPU of a set each thread gets.
   integer(c_int), parameter :: HOMING_FILL = 0, HOMING_ROUND_ROBIN = 1, HOMING_ONE_PER_NODE = 2

   ! What a set has. `size` is c_sizeof of it, set by the caller.
   type, bind(c) :: homing_rset_facts
      integer(c_size_t) :: size
      integer(c_int64_t) :: cpus, nodes, bytes, free_bytes
   end type

   interface
      integer(c_int) function homing_start(settings) bind(c)
         import :: c_int, c_ptr
         type(c_ptr), value :: settings
      end function
      integer(c_int) function homing_stop() bind(c)
         import :: c_int
      end function
      integer(c_int) function homing_status() bind(c)
         import :: c_int
      end function
      integer(c_int) function homing_area(address, bytes, name) bind(c)
         import :: c_int, c_ptr, c_size_t
         type(c_ptr), value :: address
         integer(c_size_t), value :: bytes
         type(c_ptr), value :: name
      end function
      integer(c_int) function homing_area_with(address, bytes, name, own) bind(c)
         import :: c_int, c_ptr, c_size_t
         type(c_ptr), value :: address
         integer(c_size_t), value :: bytes
         type(c_ptr), value :: name
         type(c_ptr), value :: own
      end function
      integer(c_int) function homing_area_forget(address) bind(c)
         import :: c_int, c_ptr
         type(c_ptr), value :: address
      end function
      integer(c_int) function homing_area_forget_name(name) bind(c)
         import :: c_char, c_int
         character(kind=c_char), dimension(*), intent(in) :: name
      end function
      ! Writes a text that ends with c_null_char, and gives the length that all of it has.
      integer(c_size_t) function homing_reason(text, bytes) bind(c)
         import :: c_char, c_size_t
         character(kind=c_char), dimension(*), intent(out) :: text
         integer(c_size_t), value :: bytes
      end function
      integer(c_size_t) function homing_source(text, bytes) bind(c)
         import :: c_char, c_size_t
         character(kind=c_char), dimension(*), intent(out) :: text
         integer(c_size_t), value :: bytes
      end function
      subroutine homing_mark(name) bind(c)
         import :: c_char
         character(kind=c_char), dimension(*), intent(in) :: name
      end subroutine

      ! Resource sets.
      integer(c_int) function homing_rset_open(expression, set) bind(c)
         import :: c_char, c_int, c_ptr
         character(kind=c_char), dimension(*), intent(in) :: expression
         type(c_ptr), intent(out) :: set
      end function
      subroutine homing_rset_close(set) bind(c)
         import :: c_ptr
         type(c_ptr), value :: set
      end subroutine
      integer(c_int) function homing_rset_query(set, facts) bind(c)
         import :: c_int, c_ptr, homing_rset_facts
         type(c_ptr), value :: set
         type(homing_rset_facts), intent(inout) :: facts
      end function
      integer(c_size_t) function homing_rset_cpus(set, numbers, room) bind(c)
         import :: c_int, c_ptr, c_size_t
         type(c_ptr), value :: set
         integer(c_int), dimension(*), intent(out) :: numbers
         integer(c_size_t), value :: room
      end function
      integer(c_size_t) function homing_rset_nodes(set, numbers, room) bind(c)
         import :: c_int, c_ptr, c_size_t
         type(c_ptr), value :: set
         integer(c_int), dimension(*), intent(out) :: numbers
         integer(c_size_t), value :: room
      end function
      integer(c_int) function homing_rset_bind_thread(set) bind(c)
         import :: c_int, c_ptr
         type(c_ptr), value :: set
      end function
      ! For c_f_pointer; c_null_ptr where there is none.
      type(c_ptr) function homing_rset_alloc(set, bytes, memory, stride) bind(c)
         import :: c_int, c_ptr, c_size_t
         type(c_ptr), value :: set
         integer(c_size_t), value :: bytes
         integer(c_int), value :: memory
         integer(c_size_t), value :: stride
      end function
      integer(c_int) function homing_rset_free(memory) bind(c)
         import :: c_int, c_ptr
         type(c_ptr), value :: memory
      end function
      ! `work` is c_funloc of a subroutine with bind(c) and two arguments by value: integer(c_int), type(c_ptr).
      integer(c_int) function homing_team_run(set, layout, threads, work, argument) bind(c)
         import :: c_funptr, c_int, c_ptr
         type(c_ptr), value :: set
         integer(c_int), value :: layout
         integer(c_int), value :: threads
         type(c_funptr), value :: work
         type(c_ptr), value :: argument
      end function
   end interface

contains

   ! An iteration of the program's outer loop ends here.
   subroutine homing_iteration()
      call homing_mark("iteration"//c_null_char)
   end subroutine

   ! A phase begins here.
   subroutine homing_phase(name)
      character(len=*), intent(in) :: name
      call homing_mark(trim(name)//c_null_char)
   end subroutine
end module
