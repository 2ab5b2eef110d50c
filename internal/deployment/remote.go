package deployment

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// A street in a process of its own: what a process costs is then what nodes cost alone.

// origins is a street, here or elsewhere.
type origins interface {
	URL(channel int) string
	Came(channel int, title string) (item int, at time.Time, ok bool)
	Sighting(channel, item int) (Sighting, bool)
	Open() error
	Counts() (Counts, error)
	Run(ctx context.Context) error
}

// An errand is what the process of a street is told.
type errand struct {
	Found *Config // serve this: the first of all
	Open  bool    // begin to measure anew
}

// A word answers an errand.
type word struct {
	Err    string
	Port   int
	Began  time.Time
	Counts Counts
}

// ServeStreet is what a process does that is a street: it does errands from in, until that or
// ctx ends.
func ServeStreet(ctx context.Context, in io.Reader, out io.Writer) error {
	errands, words := gob.NewDecoder(in), gob.NewEncoder(out)
	var s *Street
	var parts sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer parts.Wait()
	defer stop()
	for {
		var e errand
		if err := errands.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read an errand: %w", err)
		}
		var w word
		switch {
		case e.Found != nil && s == nil:
			var err error
			if s, err = NewStreet(*e.Found); err != nil {
				return err
			}
			parts.Go(func() { _ = s.Run(ctx) }) // it ends with ctx, or cannot be reached, which is seen
			w.Port, w.Began = s.port, s.began
		case s == nil:
			w.Err = "there is no street yet"
		case e.Open:
			_ = s.Open() // here it never fails
		}
		if s != nil {
			w.Counts, _ = s.Counts()
		}
		if err := words.Encode(w); err != nil {
			return fmt.Errorf("answer an errand: %w", err)
		}
	}
}

// A remote is a street in another process.
type remote struct {
	plan
	command *exec.Cmd
	in      io.WriteCloser

	mu      sync.Mutex // one errand at a time
	errands *gob.Encoder
	words   *gob.Decoder
}

// settle starts the process of a street, which calls ServeStreet.
func settle(command *exec.Cmd, c Config) (*remote, error) {
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("street: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("street: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("street: %w", err)
	}
	r := &remote{command: command, in: in, errands: gob.NewEncoder(in), words: gob.NewDecoder(out)}
	w, err := r.do(errand{Found: &c})
	if err != nil {
		_ = in.Close()
		return nil, errors.Join(err, command.Wait())
	}
	r.plan = newPlan(c, w.Port, w.Began)
	return r, nil
}

func (r *remote) do(e errand) (w word, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err = r.errands.Encode(e); err == nil {
		err = r.words.Decode(&w)
	}
	if err == nil && w.Err != "" {
		err = errors.New(w.Err)
	}
	if err != nil {
		return w, fmt.Errorf("street: %w", err)
	}
	return w, nil
}

func (r *remote) Open() error {
	_, err := r.do(errand{Open: true})
	return err
}

func (r *remote) Counts() (Counts, error) {
	w, err := r.do(errand{})
	return w.Counts, err
}

// Sighting knows of none: the street does not say who has found what.
func (r *remote) Sighting(int, int) (Sighting, bool) { return Sighting{}, false }

// Run ends the process when ctx ends.
func (r *remote) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.in.Close() // by which it ends
	if err := r.command.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return fmt.Errorf("street: %w", err)
		}
	}
	return nil
}
