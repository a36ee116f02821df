! Fortran, OpenMP: a matrix of 96 MiB that is relaxed row by row. Planted: 64 rows at a time go to each thread in
! turn, so that four threads have 512 bytes each of every 2 KiB of a column (-DFIXED: each thread has a block of
! columns).
program columns
  use omp_lib
  implicit none
  integer, parameter :: n = 3584, steps = 8
  double precision, allocatable :: matrix(:, :)
  integer :: i, j, k, step, me, threads
  allocate (matrix(n, n))
  !$omp parallel private(i, j, k, step, me, threads) num_threads(4)
  me = omp_get_thread_num()
  threads = omp_get_num_threads()
#ifdef FIXED
  do step = 0, steps
    do j = me * n / threads + 1, (me + 1) * n / threads
      do i = 1, n, 4
        matrix(i, j) = merge(1d0, matrix(i, j) * 0.5d0 + step, step == 0)
      end do
    end do
  end do
#else
  do step = 0, steps
    do j = 1, n
      do k = 64 * me + 1, n, 64 * threads
        do i = k, k + 63, 4
          matrix(i, j) = merge(1d0, matrix(i, j) * 0.5d0 + step, step == 0)
        end do
      end do
    end do
  end do
#endif
  !$omp end parallel
  print *, matrix(1, n / 2)
end program columns
