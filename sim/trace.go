package sim

import (
	"context"
	"log/slog"
	"math/bits"
	"time"
)

// hashEvent adds one event to the trace hash: it multiplies two words and folds the halves of the
// product, as wyhash does.
func (l *lane) hashEvent(e *event, payload uint64) {
	a := l.trace ^ uint64(l.now) ^ 0x9e3779b97f4a7c15
	b := payload ^ uint64(uint32(e.host))<<32 ^ uint64(e.kind)<<24 ^ 0xe7037ed1a0b428db
	high, low := bits.Mul64(a, b)
	l.trace = bits.RotateLeft64(l.trace, 23) ^ high ^ low
}

// TraceHash returns a hash over all events so far: their time, host, kind, and, for frames, all
// bytes. The same world and script give the same hash in every process and on every machine,
// whether lanes run in parallel or not.
func (w *World) TraceHash() uint64 {
	hash := w.scriptLane.trace
	for _, l := range w.lanes {
		if l != w.scriptLane {
			hash = mix64(hash ^ l.trace)
		}
	}
	return hash
}

// Events returns the number of events so far.
func (w *World) Events() uint64 {
	n := w.scriptLane.events
	for _, l := range w.lanes {
		if l != w.scriptLane {
			n += l.events
		}
	}
	return n
}

// A virtualTimeHandler is a log handler that replaces the wall-clock time by the host's virtual
// time.
type virtualTimeHandler struct {
	slog.Handler
	now func() time.Time
}

func (v virtualTimeHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = v.now()
	return v.Handler.Handle(ctx, r)
}

func (v virtualTimeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return virtualTimeHandler{v.Handler.WithAttrs(attrs), v.now}
}

func (v virtualTimeHandler) WithGroup(name string) slog.Handler {
	return virtualTimeHandler{v.Handler.WithGroup(name), v.now}
}
