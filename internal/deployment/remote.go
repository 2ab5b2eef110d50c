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

// The server can run in a process of its own, so that the cost of this process is the cost of the nodes
// alone.

// A server is a FeedServer in this process or in another one.
type server interface {
	URL(channel int) string
	ItemOf(channel int, title string) (item int, at time.Time, ok bool)
	FirstPoll(channel, item int) (FirstPoll, bool)
	ResetCounts() error
	Counts() (Counts, error)
	Run(ctx context.Context) error
}

// A request is sent to the process of a server.
type request struct {
	Create *Config // serve this; in the first request only
	Reset  bool    // reset the counts
}

// A response answers a request.
type response struct {
	Err    string
	Port   int
	Began  time.Time
	Counts Counts
}

// ServeFeeds is the main function of the process of a server. It answers requests from in, until in or ctx
// ends.
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
			return fmt.Errorf("read a request: %w", err)
		}
		var a response
		switch {
		case q.Create != nil && s == nil:
			var err error
			if s, err = NewFeedServer(*q.Create); err != nil {
				return err
			}
			parts.Go(func() { _ = s.Run(ctx) }) // an error shows in requests that fail
			a.Port, a.Began = s.port, s.began
		case s == nil:
			a.Err = "no feeds are served yet"
		case q.Reset:
			_ = s.ResetCounts() // a FeedServer returns no error
		}
		if s != nil {
			a.Counts, _ = s.Counts()
		}
		if err := responses.Encode(a); err != nil {
			return fmt.Errorf("answer a request: %w", err)
		}
	}
}

// A remote is a server in another process.
type remote struct {
	feedPlan
	command *exec.Cmd
	in      io.WriteCloser

	mu        sync.Mutex // held for one request at a time
	requests  *gob.Encoder
	responses *gob.Decoder
}

// startRemote starts the process of a server, which calls ServeFeeds.
func startRemote(command *exec.Cmd, c Config) (*remote, error) {
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("feed server: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("feed server: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("feed server: %w", err)
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
		return a, fmt.Errorf("feed server: %w", err)
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

// FirstPoll knows no polls, because the process does not report them.
func (r *remote) FirstPoll(int, int) (FirstPoll, bool) { return FirstPoll{}, false }

// Run stops the process when ctx ends.
func (r *remote) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.in.Close() // ends the process
	if err := r.command.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return fmt.Errorf("feed server: %w", err)
		}
	}
	return nil
}
