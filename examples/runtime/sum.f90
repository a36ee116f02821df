! As sum.c, in Fortran with OpenMP.
program sum_of_numbers
   use homing
   implicit none
   integer, parameter :: words = 1000000
   integer(c_int64_t), allocatable, target :: numbers(:)
   integer(c_int64_t) :: total
   integer(c_int) :: status
   integer :: i, step

   status = homing_start(c_null_ptr)
   print '(a, i0)', "homing: status ", status
   if (status < 0) stop 1
   allocate (numbers(words))
   do i = 1, words
      numbers(i) = i - 1
   end do
   status = homing_area(c_loc(numbers), int(words, c_size_t) * 8_c_size_t, c_null_ptr)
   do step = 1, 10
      total = 0
      !$omp parallel do reduction(+:total)
      do i = 1, words
         total = total + numbers(i)
      end do
      call homing_iteration()
   end do
   print '(a, i0)', "sum ", total
   status = homing_area_forget(c_loc(numbers))
   status = homing_stop()
end program
