package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/internal/env"
)

// resident returns how much of a file is mapped into this process's memory, in bytes.
func resident(t *testing.T, path string) (bytes int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skipf("the kernel does not say what is mapped: %v", err)
	}
	within := false
	for line := range strings.Lines(string(maps)) {
		var kB int
		if strings.Contains(line, "-") && strings.Contains(line, " r") {
			within = strings.HasSuffix(strings.TrimSpace(line), path)
		} else if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kB); n == 1 && within {
			bytes += kB << 10
		}
	}
	return bytes
}

// Pages that a store has read or written do not stay in memory.
func TestMappedPagesAreGivenBack(t *testing.T) {
	const records, size = 10_000, 3 << 10
	path := filepath.Join(t.TempDir(), "tidings.db")
	answers := make(chan func(), records)
	d, err := Open(path, func(f func()) { answers <- f }, SecondCopy{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	key := func(i int) []byte { return fmt.Appendf(nil, "%06d", i) }
	write := func(from byte) {
		t.Helper()
		value := make([]byte, size)
		value[0] = from
		for i := range records {
			d.Commit([]env.Op{{Key: key(i), Value: value}}, func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			})
		}
		for range records {
			(<-answers)()
		}
	}
	few := func(what string) {
		t.Helper()
		if got := resident(t, path); got > 2*maxMapped {
			t.Errorf("%s: %d bytes of the file are in memory", what, got)
		}
	}
	write(1)
	n := 0
	if err := d.Range(nil, func([]byte, []byte) bool { n++; return true }); err != nil || n != records {
		t.Fatal(n, err)
	}
	few("all were read in order")
	for i := range records {
		if v, err := d.Get(key(i)); err != nil || len(v) != size || v[0] != 1 {
			t.Fatal(i, len(v), err)
		}
	}
	few("all were read one by one")
	write(2) // reads the old records, too
	few("all were written again")
	if v, err := d.Get(key(7)); err != nil || v[0] != 2 {
		t.Error(v, err)
	}
	d.mapped.touchedBytes.Store(0)
	for i := 0; i < records; i += 20 { // few, but from everywhere in the file
		if _, err := d.Get(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	d.mapped.givenBack.Store(0)
	if _, err := d.Get(key(7)); err != nil {
		t.Fatal(err)
	}
	if got := resident(t, path); got > maxMapped/2 {
		t.Errorf("%d bytes of the file are in memory some time after records were read", got)
	}
}
