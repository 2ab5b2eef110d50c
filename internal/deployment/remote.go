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
type server interface {
	URL(channel int) string
	ItemOf(channel int, title string) (item int, at time.Time, ok bool)
	FirstPoll(channel, item int) (FirstPoll, bool)
	ResetCounts() error
	Counts() (Counts, error)
	Run(ctx context.Context) error
}

// An errand is what the process of a street is told.
type request struct {
	Create *Config // serve this: the first of all
	Reset  bool    // begin to measure anew
}

// A word answers an errand.
type response struct {
	Err    string
	Port   int
	Began  time.Time
	Counts Counts
}

// ServeStreet is what a process does that is a street: it does errands from in, until that or
// ctx ends.
func ServeFeeds(ctx context.Context, in io.Reader, out io.Writer) error {
	requests, responses := gob.NewDecoder(in), gob.NewEncoder(out)
	var s *FeedServer
	var parts sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer parts.Wait()
	defer stop()
	for {
		var q request
		if err := requests.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read an errand: %w", err)
		}
		var a response
		switch {
		case q.Create != nil && s == nil:
			var err error
			if s, err = NewFeedServer(*q.Create); err != nil {
				return err
			}
			parts.Go(func() { _ = s.Run(ctx) }) // it ends with ctx, or cannot be reached, which is seen
			a.Port, a.Began = s.port, s.began
		case s == nil:
			a.Err = "there is no street yet"
		case q.Reset:
			_ = s.ResetCounts() // here it never fails
		}
		if s != nil {
			a.Counts, _ = s.Counts()
		}
		if err := responses.Encode(a); err != nil {
			return fmt.Errorf("answer an errand: %w", err)
		}
	}
}

// A remote is a street in another process.
type remote struct {
	feedPlan
	command *exec.Cmd
	in      io.WriteCloser

	mu        sync.Mutex // one errand at a time
	requests  *gob.Encoder
	responses *gob.Decoder
}

// settle starts the process of a street, which calls ServeStreet.
func startRemote(command *exec.Cmd, c Config) (*remote, error) {
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
	r := &remote{command: command, in: in, requests: gob.NewEncoder(in), responses: gob.NewDecoder(out)}
	a, err := r.do(request{Create: &c})
	if err != nil {
		_ = in.Close()
		return nil, errors.Join(err, command.Wait())
	}
	r.feedPlan = newPlan(c, a.Port, a.Began)
	return r, nil
}

func (r *remote) do(q request) (a response, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err = r.requests.Encode(q); err == nil {
		err = r.responses.Decode(&a)
	}
	if err == nil && a.Err != "" {
		err = errors.New(a.Err)
	}
	if err != nil {
		return a, fmt.Errorf("street: %w", err)
	}
	return a, nil
}

func (r *remote) ResetCounts() error {
	_, err := r.do(request{Reset: true})
	return err
}

func (r *remote) Counts() (Counts, error) {
	a, err := r.do(request{})
	return a.Counts, err
}

// Sighting knows of none: the street does not say who has found what.
func (r *remote) FirstPoll(int, int) (FirstPoll, bool) { return FirstPoll{}, false }

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
