! SPDX-License-Identifier: MIT OR Apache-2.0
!
! libhoming for Fortran 2003 and later: compile this file with the program. runtime.h says what the functions do; texts
! end with c_null_char, `settings`, `name` and `own` may be c_null_ptr.
module homing
   use, intrinsic :: iso_c_binding
   implicit none

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
      subroutine homing_mark(name) bind(c)
         import :: c_char
         character(kind=c_char), dimension(*), intent(in) :: name
      end subroutine
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
