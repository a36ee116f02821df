! As team.c, in Fortran: an array whose memory is striped over a resource set, and a team of threads that work on it. A
! second array has a policy of its own: its pages are on the node of the thread that allocates it.
module team_work
   use homing
   implicit none
   integer, parameter :: words = 1000000, most = 4096
   integer(c_int64_t), pointer :: numbers(:), sums(:)
   integer(c_int) :: threads

contains

   subroutine work(thread, argument) bind(c)
      integer(c_int), value :: thread
      type(c_ptr), value :: argument
      integer :: i
      if (c_associated(argument)) stop 1
      do i = 1 + thread, words, threads
         sums(1 + thread) = sums(1 + thread) + numbers(i)
      end do
   end subroutine
end module

program team
   use team_work
   implicit none
   integer(c_size_t), parameter :: word = 8, stride = 65536
   type(homing_rset_facts) :: facts
   type(c_ptr) :: set, striped, local
   integer :: i

   if (homing_rset_open("all"//c_null_char, set) /= HOMING_OK) call fail("homing_rset_open")
   facts%size = c_sizeof(facts)
   if (homing_rset_query(set, facts) /= HOMING_OK) call fail("homing_rset_query")
   print '(a, i0, a, i0, a)', "homing: ", facts%cpus, " CPUs, ", facts%nodes, " nodes"
   threads = int(min(facts%cpus, int(most, c_int64_t)), c_int)

   ! A container may forbid memory policies: then any memory does.
   striped = homing_rset_alloc(set, words * word, HOMING_STRIPED, stride)
   local = homing_rset_alloc(set, most * word, HOMING_LOCAL, 0_c_size_t)
   if (c_associated(striped) .and. c_associated(local)) then
      call c_f_pointer(striped, numbers, [words])
      call c_f_pointer(local, sums, [most])
   else
      allocate (numbers(words), sums(most))
   end if
   do i = 1, words
      numbers(i) = i - 1
   end do
   sums = 0
   if (homing_team_run(set, HOMING_FILL, threads, c_funloc(work), c_null_ptr) /= HOMING_OK) call fail("homing_team_run")
   print '(a, i0)', "sum ", sum(sums)
   if (homing_rset_free(striped) /= HOMING_OK .or. homing_rset_free(local) /= HOMING_OK) call fail("homing_rset_free")
   call homing_rset_close(set)

contains

   subroutine fail(what)
      character(len=*), intent(in) :: what
      character(kind=c_char), dimension(1000) :: text
      integer(c_size_t) :: length
      length = min(homing_reason(text, size(text, kind=c_size_t)), size(text, kind=c_size_t) - 1)
      print *, what, ": ", text(:length)
      stop 1
   end subroutine
end program
