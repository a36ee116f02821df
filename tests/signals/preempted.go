// Goroutines that the runtime preempts by signals, timers and a profiler's SIGPROF, checking a hash that they all compute. It runs
// until its input ends.
package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

func hash() [32]byte {
	sum := sha256.Sum256([]byte("home"))
	for i := 0; i < 2000; i++ {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

func main() {
	var stop, wrong, rounds, ticks atomic.Int64
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	expected := hash()
	done := make(chan bool)
	workers := 2 * runtime.NumCPU()
	for i := 0; i < workers; i++ {
		go func() {
			for stop.Load() == 0 {
				garbage := make([]byte, 1<<16)
				if hash() != expected || garbage[len(garbage)-1] != 0 {
					wrong.Add(1)
				}
				rounds.Add(1)
			}
			done <- true
		}()
	}
	go func() {
		for range time.Tick(time.Millisecond) {
			ticks.Add(1)
		}
	}()
	fmt.Println("ready")
	for in := bufio.NewReader(os.Stdin); ; {
		if _, err := in.ReadByte(); err != nil {
			break
		}
	}
	stop.Store(1)
	for i := 0; i < workers; i++ {
		<-done
	}
	pprof.StopCPUProfile()
	fmt.Printf("rounds=%d ticks=%d failures=%d\n", rounds.Load(), ticks.Load(), wrong.Load())
	if wrong.Load() != 0 || rounds.Load() == 0 || ticks.Load() == 0 {
		os.Exit(1)
	}
}
