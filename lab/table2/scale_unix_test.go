//go:build unix

package table2

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"

	"tidings/honeycomb"
)

var (
	membersFlag   = flag.Int("members", 0, "measure a world of so many members")
	channelsFlag  = flag.Int("channels", 0, "its channels, of 50 subscriptions each; 0: as many for each member as in the paper's world")
	burstFlag     = flag.Duration("burst", 2*time.Second, "in what time all members subscribe")
	objectiveFlag = flag.String("objective", "lite", "what its members optimise")
	hoursFlag     = flag.Int("hours", 1, "virtual hours after all have subscribed and settled")
	profilesFlag  = flag.String("profiles", "", "a folder for profiles of each phase")
)

// TestScale measures the cost of a world, phase by phase:
//
//	go -C lab test ./table2 -run TestScale -members 128 -timeout 1h -v
func TestScale(t *testing.T) {
	if *membersFlag == 0 {
		t.Skip("a measurement: give the size of the world with -members")
	}
	objective, err := honeycomb.ParseObjective(*objectiveFlag)
	if err != nil {
		t.Fatal(err)
	}
	channels := *channelsFlag
	if channels == 0 {
		channels = *membersFlag * 100_000 / 1024
	}
	load := NewWorkload(1, *membersFlag, channels, 50*channels)
	LargePages(load.Heap())
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as in Config.Run
	network := paperNetwork()
	network.Objective = objective.String()
	w := NewWorld(load, network)
	measure(t, w, "join", func() {
		if !w.RunUntil(w.Joined, 10*time.Second, 40*time.Minute) {
			t.Fatal("not joined")
		}
	})
	measure(t, w, "subscribe", func() {
		w.Subscribe(*burstFlag)
		w.Run(10 * time.Minute)
	})
	for i := range 1 + *hoursFlag {
		measure(t, w, fmt.Sprint("hour", i+1), func() { w.Run(time.Hour) })
		p, channels := w.Workload.Problem(objective, 30*time.Minute, 1, 0)
		bound, s := Bound(p, channels), w.Polls.Close(w.Now().UnixNano())
		fmt.Printf("    %+v\n    bound %.3f, ratio %.4f; load %.4f of the target\n", s, bound.Detection, s.Detection/bound.Detection, s.Load/bound.Load)
		if i == 0 && objective == honeycomb.Lite {
			check(t, w)
		}
	}
}

// measure runs a phase and prints its cost.
func measure(t *testing.T, w *World, phase string, run func()) {
	sent, events, now, cpu := w.Tally().Since(nil), w.Events(), w.Now(), usage().cpu
	if *profilesFlag != "" {
		f := profile(t, phase+".cpu")
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			t.Fatal(err)
		}
	}
	run()
	pprof.StopCPUProfile()
	cpu = usage().cpu - cpu
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	fmt.Printf("%-10s %6.0f min  %7.1f s cpu  %9d events  %5.0f MB live  %5.0f MB resident at most\n", phase,
		w.Now().Sub(now).Minutes(), cpu.Seconds(), w.Events()-events, float64(mem.HeapAlloc)/1e6, usage().resident/1e6)
	sent = w.Tally().Since(sent)
	for _, k := range sent.Kinds() {
		if c := sent[k]; c.Frames > 1000 {
			fmt.Printf("    %-5v %10d frames %6d MB\n", k, c.Frames, c.Bytes/1e6)
		}
	}
	if *profilesFlag != "" {
		f := profile(t, phase+".heap")
		defer f.Close()
		if err := pprof.WriteHeapProfile(f); err != nil {
			t.Fatal(err)
		}
	}
}

func profile(t *testing.T, name string) *os.File {
	f, err := os.Create(filepath.Join(*profilesFlag, name))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type used struct {
	cpu      time.Duration
	resident float64 // maximum so far, in bytes
}

func usage() used {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return used{time.Duration(u.Utime.Nano() + u.Stime.Nano()), float64(u.Maxrss) * 1024}
}
