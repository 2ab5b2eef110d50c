package deployment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os/exec"
	"sync"
	"time"
)

// The server can run in a process of its own, so that the cost of this process is the cost of the nodes
// alone. The two processes speak net/rpc over the standard streams of the other one.

// A server is a FeedServer in this process or in another one.
type server interface {
	URL(channel int) string
	ItemOf(channel int, title string) (item int, at time.Time, ok bool)
	FirstPoll(channel, item int) (FirstPoll, bool)
	ResetCounts() error
	Counts() (Counts, error)
	Run(ctx context.Context) error
}

// A feedService answers the calls in the process of a server.
type feedService struct {
	ctx    context.Context
	server *FeedServer
	runs   sync.WaitGroup
}

// Started says where a server listens, and since when it publishes items.
type Started struct {
	Port  int
	Began time.Time
}

// Start starts the server. It is the first call.
func (f *feedService) Start(c Config, s *Started) (err error) {
	if f.server, err = NewFeedServer(c); err == nil {
		f.runs.Go(func() { _ = f.server.Run(f.ctx) }) // an error shows in requests that fail
		*s = Started{f.server.port, f.server.began}
	}
	return err
}

// Counts returns the counts, and resets them first if reset is true.
func (f *feedService) Counts(reset bool, counts *Counts) (err error) {
	if reset {
		_ = f.server.ResetCounts() // a FeedServer returns no error
	}
	*counts, err = f.server.Counts()
	return err
}

// A pipe joins the two streams of a process.
type pipe struct {
	io.Reader
	io.Writer
	io.Closer
}

// ServeFeeds is the main function of the process of a server. It answers calls until in ends.
func ServeFeeds(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	f := &feedService{ctx: ctx}
	defer f.runs.Wait()
	defer stop()
	calls := rpc.NewServer()
	if err := calls.RegisterName("feeds", f); err != nil {
		return err
	}
	calls.ServeConn(pipe{in, out, io.NopCloser(in)})
	return nil
}

// A remote is a server in another process.
type remote struct {
	feedPlan
	command *exec.Cmd
	calls   *rpc.Client
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
	r := &remote{command: command, calls: rpc.NewClient(pipe{out, in, in})}
	var s Started
	if err := r.calls.Call("feeds.Start", c, &s); err != nil {
		return nil, fmt.Errorf("feed server: %w", errors.Join(err, r.calls.Close(), command.Wait()))
	}
	r.feedPlan = newPlan(c, s.Port, s.Began)
	return r, nil
}

// count returns the counts of the process.
func (r *remote) count(reset bool) (counts Counts, err error) {
	if err = r.calls.Call("feeds.Counts", reset, &counts); err != nil {
		err = fmt.Errorf("feed server: %w", err)
	}
	return counts, err
}

func (r *remote) Counts() (Counts, error) { return r.count(false) }

func (r *remote) ResetCounts() error {
	_, err := r.count(true)
	return err
}

// FirstPoll knows no polls, because the process does not report them.
func (r *remote) FirstPoll(int, int) (FirstPoll, bool) { return FirstPoll{}, false }

// Run stops the process when ctx ends.
func (r *remote) Run(ctx context.Context) error {
	<-ctx.Done()
	_ = r.calls.Close() // ends the process
	if err := r.command.Wait(); err != nil {
		return fmt.Errorf("feed server: %w", err)
	}
	return nil
}
