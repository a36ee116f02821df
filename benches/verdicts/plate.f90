! Fortran, OpenMP: heat on a plate, two arrays of 48 MiB, bands of columns. Planted: one thread fills the arrays
! (-DFIXED: the threads that use them).
program plate
  implicit none
  integer, parameter :: n = 2508, steps = 5
  double precision, allocatable :: now(:, :), next(:, :)
  integer :: i, j, step
  allocate (now(n, n), next(n, n))
#ifdef FIXED
  !$omp parallel do private(i) schedule(static) num_threads(4)
#endif
  do j = 1, n
    do i = 1, n
      now(i, j) = dble(i)
      next(i, j) = 0d0
    end do
  end do
  do step = 1, steps
    !$omp parallel do private(i) schedule(static) num_threads(4)
    do j = 2, n - 1
      do i = 2, n - 1
        next(i, j) = 0.25d0 * (now(i - 1, j) + now(i + 1, j) + now(i, j - 1) + now(i, j + 1))
      end do
    end do
    !$omp parallel do private(i) schedule(static) num_threads(4)
    do j = 2, n - 1
      do i = 2, n - 1
        now(i, j) = next(i, j)
      end do
    end do
  end do
  print *, now(n / 2, n / 2)
end program plate
