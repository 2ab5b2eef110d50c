package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"tidings/internal/env"
)

// committer returns a function that commits and waits.
func committer(b *testing.B) (*Disk, func(ops ...env.Op)) {
	answered := make(chan error, 1)
	d, err := Open(filepath.Join(b.TempDir(), "node.db"), func(f func()) { f() }, SecondCopy{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	return d, func(ops ...env.Op) {
		d.Commit(ops, func(err error) { answered <- err })
		if err := <-answered; err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	_, commit := committer(b)
	op := put("lock", "12345678")
	for b.Loop() {
		commit(op)
	}
}

// BenchmarkCommitBody commits bodies of several sizes among a thousand others and deletes each
// later, in segments and in the file.
func BenchmarkCommitBody(b *testing.B) {
	for _, size := range []int{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10} {
		for _, outside := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/body=%v", size, outside), func(b *testing.B) {
				_, commit := committer(b)
				body := text(1, size)
				b.SetBytes(int64(size))
				n := 0
				for b.Loop() {
					key := func(i int) []byte { return fmt.Appendf(nil, "b/%016x", uint64(i)*0x9e3779b97f4a7c15) }
					commit(env.Op{Key: key(n), Value: body, Body: outside}, env.Op{Key: key(n - 1000)})
					n++
				}
			})
		}
	}
}

func BenchmarkGet(b *testing.B) {
	for _, size := range []int{100, 2 << 10, 16 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			d, commit := committer(b)
			for i := range 500 {
				commit(env.Op{Key: fmt.Appendf(nil, "b/%04d", i), Value: text(i, size), Body: true})
			}
			b.SetBytes(int64(size))
			b.ResetTimer()
			n := 0
			for b.Loop() {
				if v, err := d.Get(fmt.Appendf(nil, "b/%04d", n%500)); err != nil || len(v) != size {
					b.Fatal(err)
				}
				n++
			}
		})
	}
}

// BenchmarkOpen opens a store of a hundred thousand records, all of which are read.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "node.db")
	d, err := Open(path, func(f func()) { f() }, SecondCopy{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		var ops []env.Op
		for j := range 1000 {
			ops = append(ops, put(fmt.Sprintf("r/%06d", 1000*i+j), string(text(j, 150))))
		}
		d.Commit(ops, func(error) {})
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		d, err := Open(path, func(f func()) { f() }, SecondCopy{})
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
