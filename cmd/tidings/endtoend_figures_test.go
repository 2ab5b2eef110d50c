package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// The targets, and the factor by which a busy machine may exceed them before the test fails.
const (
	latencyTarget  = 2 * time.Second // in addition to the polling interval
	residentTarget = 80 << 20        // in bytes
	startTarget    = 2 * time.Second
	slowness       = 3
)

// TestLatencyAndFootprint measures how soon an item is available at another node, how much memory an idle node
// uses, and how soon it serves after its start.
func TestLatencyAndFootprint(t *testing.T) {
	skipIfShort(t)
	const interval = 2 * time.Second
	changes := longtest.Pick(5, 20)
	program, err := os.Executable() // larger than a release, because it contains the tests
	if err != nil {
		t.Fatal(err)
	}
	if longtest.Long() { // and contains nothing else
		program = filepath.Join(t.TempDir(), "tidings")
		if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, ".").CombinedOutput(); err != nil {
			t.Fatalf("build tidings: %v: %s", err, out)
		}
	} else {
		t.Parallel()
	}
	node := func(flags ...string) *nodeProcess {
		return startProgram(t, program, filepath.Join(t.TempDir(), "node"), append(flags, "--allow-private-origins")...)
	}
	first := node("--network", "figures", "--poll-interval", interval.String(), "--load", "0.3") // so that one node polls
	nodes := []*nodeProcess{first, node("--bootstrap", first.peer), node("--bootstrap", first.peer)}
	last := nodes[2]
	eventually(t, timeout, "the first page", func() error {
		a, err := http.Get("http://" + last.http + "/")
		if err == nil {
			a.Body.Close()
		}
		return err
	})
	served := time.Since(last.begun)
	t.Logf("HTTP %.2f s after the start (target %v)", served.Seconds(), startTarget)
	if served > slowness*startTarget {
		t.Errorf("HTTP %v after the start", served)
	}
	waitForMembers(t, nodes)

	// An idle node is a member of a network without work.
	if bytes, err := resident(last.cmd.Process.Pid); err != nil {
		t.Logf("memory not measured: %v", err)
	} else {
		t.Logf("idle node: %.1f MB resident (target %d MB)", float64(bytes)/(1<<20), residentTarget>>20)
		if bytes > 2*residentTarget {
			t.Errorf("an idle node has %d bytes", bytes)
		}
	}

	o := newTestOrigin(t)
	o.Play("/feed", growingFeed("feed", 1, changes))
	url := o.url + "/feed"
	addresses := make([]string, len(nodes))
	for i, n := range nodes {
		addresses[i] = n.subscribe(url)
		eventually(t, timeout, "the first reading", func() error {
			_, _, err := readFeed(addresses[i])
			return err
		})
	}
	reader := slices.IndexFunc(nodes, func(n *nodeProcess) bool { return n.list()[url].Rank == nil })
	if reader < 0 {
		t.Fatal("all nodes poll the feed")
	}

	// Changes have their own period, so they occur at any time between two polls.
	changed := make([]time.Time, 1, changes+1)
	var took []time.Duration
	next, look := time.NewTicker(interval*7/10), time.NewTicker(20*time.Millisecond)
	defer next.Stop()
	defer look.Stop()
	late := time.After(2 * timeout)
	for len(took) < changes {
		select {
		case <-next.C:
			if len(changed) <= changes {
				changed = append(changed, time.Now())
				o.step()
			}
		case <-look.C:
			f, _, err := readFeed(addresses[reader])
			if err != nil {
				t.Fatal(err)
			}
			for len(took) < len(f.Items)-1 {
				took = append(took, time.Since(changed[len(took)+1]))
			}
		case <-late:
			t.Fatalf("%d of %d changes seen", len(took), changes)
		}
	}
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	t.Logf("%d changes at the origin, seen through another node: mean %.2f s, most %.2f s after (target: interval + 2 s = %v)",
		changes, (sum / time.Duration(changes)).Seconds(), slices.Max(took).Seconds(), interval+latencyTarget)
	if most := slices.Max(took); most > interval+slowness*latencyTarget {
		t.Errorf("a change was seen after %v", most)
	}
}

// resident returns the resident memory of a process in bytes.
func resident(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", pid)
}
