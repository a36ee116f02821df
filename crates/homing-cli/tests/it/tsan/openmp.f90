! OpenMP in Fortran: allocatable arrays, a reduction, locks by their Fortran names.
program openmp
   use omp_lib
   implicit none
   integer, parameter :: n = 2000
   real(8), allocatable :: a(:), b(:)
   real(8) :: total
   integer(omp_lock_kind) :: lock
   integer :: i, held
   allocate (a(n), b(n))
   call omp_init_lock(lock)
   total = 0
   held = 0
!$omp parallel do
   do i = 1, n
      a(i) = i
      b(i) = 2*i
   end do
!$omp parallel do reduction(+:total)
   do i = 1, n
      total = total + a(i)*b(n + 1 - i)
   end do
!$omp parallel do
   do i = 1, 100
      call omp_set_lock(lock)
      held = held + 1
      call omp_unset_lock(lock)
   end do
   print '(f0.0, 1x, i0)', total, held
   deallocate (a, b)
end program
