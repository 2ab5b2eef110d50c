package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A progress shows on a terminal how much of a long task is done; it writes nothing elsewhere.
type progress struct {
	w     io.Writer // nil: not a terminal
	what  string
	began time.Time
	shown time.Time
}

// redraw is the time between two updates.
const redraw = 200 * time.Millisecond

func newProgress(w io.Writer, what string) *progress {
	p := &progress{what: what, began: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w = w
		}
	}
	return p
}

// at shows the part that is done, from 0 to 1.
func (p *progress) at(done float64) {
	if p.w == nil || time.Since(p.shown) < redraw {
		return
	}
	p.shown = time.Now()
	left := ""
	if passed := time.Since(p.began); done > 0.02 {
		left = fmt.Sprintf(", %v left", time.Duration(float64(passed)*(1-done)/done).Round(time.Second))
	}
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s: %.0f %%%s", p.what, 100*done, left) // errors do not matter
}

// end clears the line.
func (p *progress) end() {
	if p.w != nil {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}
