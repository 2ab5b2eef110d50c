package sim

import (
	"context"
	"log/slog"
	"math/bits"
	"time"
)

// fold adds one event to the hash of the trace: a multiplication of two words
// whose halves are folded, as in wyhash.
func (l *lane) fold(e *event, payload uint64) {
	a := l.trace ^ uint64(l.now) ^ 0x9e3779b97f4a7c15
	b := payload ^ uint64(uint32(e.host))<<32 ^ uint64(e.kind)<<24 ^ 0xe7037ed1a0b428db
	high, low := bits.Mul64(a, b)
	l.trace = bits.RotateLeft64(l.trace, 23) ^ high ^ low
}

// TraceHash is a hash over all events so far: when, to which host, what, and
// for a frame all its bytes. It is the same in every process and on every
// machine for the same world and script, however many of its lanes go side by side.
func (w *World) TraceHash() uint64 {
	hash := w.own.trace
	for _, l := range w.lanes {
		if l != w.own {
			hash = scatter(hash ^ l.trace)
		}
	}
	return hash
}

// Events is the number of events so far.
func (w *World) Events() uint64 {
	n := w.own.events
	for _, l := range w.lanes {
		if l != w.own {
			n += l.events
		}
	}
	return n
}

// virtual is a log handler that puts the time of the world in place of the
// wall clock's.
type virtual struct {
	slog.Handler
	now func() time.Time
}

func (v virtual) Handle(ctx context.Context, r slog.Record) error {
	r.Time = v.now()
	return v.Handler.Handle(ctx, r)
}

func (v virtual) WithAttrs(attrs []slog.Attr) slog.Handler {
	return virtual{v.Handler.WithAttrs(attrs), v.now}
}

func (v virtual) WithGroup(name string) slog.Handler {
	return virtual{v.Handler.WithGroup(name), v.now}
}
