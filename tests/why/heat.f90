! Heat in a plate, by columns. Planted: the main thread sets it up (-DFIXED: the threads do, each its columns).
program heat
   implicit none
   integer, parameter :: n = 360
   real(8), allocatable :: u(:, :), v(:, :)
   integer :: i, j, step
   allocate (u(n, n), v(n, n))
#ifdef FIXED
   !$omp parallel do schedule(static) private(i)
#endif
   do j = 1, n
      do i = 1, n
         u(i, j) = merge(1.0d0, 0.0d0, i == 1)
         v(i, j) = u(i, j)
      end do
   end do
   do step = 1, 6
      call sweep(u, v)
      call sweep(v, u)
   end do
   print *, sum(u(:, n/2))
contains
   subroutine sweep(from, to)
      real(8), intent(in) :: from(n, n)
      real(8), intent(inout) :: to(n, n)
      integer :: i, j
      !$omp parallel do schedule(static) private(i)
      do j = 2, n - 1
         do i = 2, n - 1
            to(i, j) = 0.25d0*(from(i - 1, j) + from(i + 1, j) + from(i, j - 1) + from(i, j + 1))
         end do
      end do
   end subroutine
end program
