// Go: each goroutine, on a thread of its own, works on its slice of one array of 96 MiB. Planted: main fills the array
// (with the argument "fixed": each goroutine fills its slice; main only allocates).
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

const threads, step, rounds, length = 4, 8, 12, 96 << 17

func newData() []float64 { return make([]float64, length) }

func fill(data []float64) {
	for i := 0; i < len(data); i += step {
		data[i] = float64(i)
	}
}

func main() {
	fixed := len(os.Args) > 1 && os.Args[1] == "fixed"
	runtime.GOMAXPROCS(threads)
	data := newData()
	if !fixed {
		fill(data)
	}
	var wait sync.WaitGroup
	for me := 0; me < threads; me++ {
		wait.Add(1)
		go func(own []float64) {
			runtime.LockOSThread()
			defer wait.Done()
			if fixed {
				fill(own)
			}
			for round := 0; round < rounds; round++ {
				for i := 0; i < len(own); i += step {
					own[i] = own[i]*0.5 + float64(round)
				}
			}
		}(data[me*length/threads : (me+1)*length/threads])
	}
	wait.Wait()
	fmt.Println(data[length/2])
}
