// Package capacity measures the program that ships, in a process of its own, with many subscriptions: memory, import, start,
// lists, and processor time at rest. The feeds are on this machine, and their documents are tiny.
package capacity

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"tidings/internal/daemon"
	"tidings/internal/feed"
	"tidings/lab/keywords"
	"tidings/lab/nodes"
	"tidings/proxy"
)

// A Run is the result for one number of feeds. Times are in seconds.
type Run struct {
	Feeds     int     `json:"feeds"`
	Import    float64 `json:"import_s"`            // tidings opml import
	ImportCPU float64 `json:"import_cpu_s"`        // processor time of the node in that time
	Imported  int     `json:"rss_imported_bytes"`  // resident memory after the import and the rest
	Polled    int     `json:"polled"`              // requests for feeds until the node was stopped
	Start     float64 `json:"start_s"`             // of the second process, until it has answered with the first page of the list
	RSS       int     `json:"rss_bytes"`           // of the second process, at the end
	FirstPage float64 `json:"first_page_s"`        // 100 subscriptions by the HTTP API
	StartPage float64 `json:"start_page_s"`        // for people
	ListPage  float64 `json:"list_page_s"`         // of subscriptions, for people
	Metrics   float64 `json:"metrics_s"`           // for programs, read for the second time
	All       float64 `json:"whole_list_s"`        // tidings list
	Export    float64 `json:"export_s"`            // tidings opml export
	Listed    int     `json:"listed"`              // feeds in the exported list
	CPU       float64 `json:"cpu"`                 // share of a core in the rest, polls included
	PollRate  float64 `json:"requests_per_second"` // for feeds in that time
}

// A Config says what Measure measures.
type Config struct {
	Dir     string // for data directories
	Program string // the program; empty: Measure builds it
	Feeds   []int
	Settle  time.Duration // after the import, and after the restart, before the rest
	Rest    time.Duration
	Stderr  io.Writer // of the program
}

// Build builds the program from the source of this module's parent, into a folder.
func Build(ctx context.Context, dir string) (program string, err error) {
	source, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "tidings").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of the program: %w; run the laboratory as go -C lab run, or name a program with --program", err)
	}
	if program = filepath.Join(dir, "tidings"); runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/tidings")
	build.Dir = string(bytes.TrimSpace(source))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w: %s", err, bytes.TrimSpace(out))
	}
	return program, nil
}

// Measure measures a new node with each number of feeds, and calls each with every result.
func Measure(ctx context.Context, c Config, progress func(what string, done float64), each func(Run)) (err error) {
	if c.Program == "" {
		progress("build", 0)
		if c.Program, err = Build(ctx, c.Dir); err != nil {
			return err
		}
	}
	o, err := openOrigin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	for _, n := range c.Feeds {
		r := Run{Feeds: n}
		what := fmt.Sprintf("%d feeds", n)
		if err := r.measure(ctx, c, o, func(done float64) { progress(what, done) }); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		each(r)
	}
	return nil
}

// longestRun bounds the measurement of one number of feeds.
const longestRun = 90 * time.Minute

// measure imports a list into a new node, and starts the node again.
func (r *Run) measure(ctx context.Context, c Config, o *origin, progress func(float64)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, longestRun)
	defer cancel()
	list := filepath.Join(c.Dir, fmt.Sprintf("%d.opml", r.Feeds))
	if err := os.WriteFile(list, o.opml(r.Feeds), 0o600); err != nil {
		return err
	}
	p := &process{Config: c, data: filepath.Join(c.Dir, fmt.Sprintf("data-%d", r.Feeds))}
	defer func() { err = errors.Join(err, p.stop(), os.RemoveAll(p.data)) }()
	progress(0)
	if err := p.start(ctx); err != nil {
		return err
	}
	progress(0.02)
	asked := o.requests.Load()
	if r.Import, _, err = p.command(ctx, "opml", "import", list); err != nil {
		return err
	}
	used, err := nodes.CPUTime(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	r.ImportCPU = used.Seconds()
	progress(0.4)
	if err := wait(ctx, c.Settle); err != nil {
		return err
	}
	if r.Imported, err = nodes.Resident(p.cmd.Process.Pid); err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	r.Polled = int(o.requests.Load() - asked)
	progress(0.5)
	return r.again(ctx, c, p, o, progress)
}

// again starts the node a second time, and measures what it does then.
func (r *Run) again(ctx context.Context, c Config, p *process, o *origin, progress func(float64)) (err error) {
	begin := time.Now()
	if err := p.start(ctx); err != nil {
		return err
	}
	a, err := p.api(ctx)
	if err != nil {
		return err
	}
	if err := a.Timed(&r.FirstPage, "list?limit=100", nil, &proxy.ListResponse{}); err != nil {
		return err
	}
	r.Start = time.Since(begin).Seconds()
	progress(0.6)
	if err := wait(ctx, c.Settle); err != nil {
		return err
	}
	pid := p.cmd.Process.Pid
	spent, err := nodes.CPUTime(pid)
	if err != nil {
		return err
	}
	asked, from := o.requests.Load(), time.Now()
	if err := wait(ctx, c.Rest); err != nil {
		return err
	}
	after, err := nodes.CPUTime(pid)
	if err != nil {
		return err
	}
	r.CPU = (after - spent).Seconds() / time.Since(from).Seconds()
	r.PollRate = float64(o.requests.Load()-asked) / time.Since(from).Seconds()
	progress(0.9)
	if err := a.Timed(&r.FirstPage, "list?limit=100", nil, &proxy.ListResponse{}); err != nil {
		return err
	}
	if r.StartPage, err = p.page(ctx, "/"); err != nil {
		return err
	}
	if r.ListPage, err = p.page(ctx, "/subscriptions"); err != nil {
		return err
	}
	for range 2 { // the second time counts, because programs read metrics again and again
		if r.Metrics, err = p.page(ctx, "/metrics"); err != nil {
			return err
		}
	}
	if r.All, _, err = p.command(ctx, "list"); err != nil {
		return err
	}
	var exported []byte
	if r.Export, exported, err = p.command(ctx, "opml", "export", "-"); err != nil {
		return err
	}
	exportedList, err := feed.ParseList(exported)
	if err != nil {
		return err
	}
	for range feed.Subscriptions(exportedList.Outlines) {
		r.Listed++
	}
	r.RSS, err = nodes.Resident(pid)
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A process runs the program on one data directory.
type process struct {
	Config
	data string
	cmd  *exec.Cmd // nil: it does not run
	http string    // its address for readers
}

// start runs the program until it has printed its address for readers.
func (p *process) start(ctx context.Context) error {
	p.cmd = exec.CommandContext(ctx, p.Program, "run", "--data", p.data, "--http", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0",
		"--network", "capacity", "--allow-private-origins", "--no-icons", "--log-level", "warn", "--max-subscriptions", "200000")
	p.cmd.Stderr, p.cmd.WaitDelay = p.Stderr, time.Second
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.cmd = nil
		return fmt.Errorf("start a node: %w", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "reader  http://"); ok {
			p.http = strings.TrimSuffix(address, "/")
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return nil
		}
	}
	return errors.New("the node has ended without an address for readers")
}

// stop stops the program in good order.
func (p *process) stop() error {
	if p.cmd == nil {
		return nil
	}
	cmd := p.cmd
	p.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("stop a node: %w", err)
	}
	return nil
}

// command runs a command of the program against the node, and returns how long it took and what it printed.
func (p *process) command(ctx context.Context, args ...string) (seconds float64, out []byte, err error) {
	cmd := exec.CommandContext(ctx, p.Program, append(args, "--http", p.http, "--data", p.data)...)
	var fault bytes.Buffer
	cmd.Stderr = &fault
	begin := time.Now()
	if out, err = cmd.Output(); err != nil {
		return 0, nil, fmt.Errorf("tidings %s: %w: %s", args[0], err, bytes.TrimSpace(fault.Bytes()))
	}
	return time.Since(begin).Seconds(), out, nil
}

// page returns the seconds until a page for people is complete.
func (p *process) page(ctx context.Context, path string) (took float64, err error) {
	begin := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+path, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if _, err = io.Copy(io.Discard, res.Body); err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, res.Status)
	}
	return time.Since(begin).Seconds(), err
}

// api returns the node's HTTP API.
func (p *process) api(ctx context.Context) (keywords.NodeAPI, error) {
	token, err := os.ReadFile(daemon.APITokenFile(p.data))
	return keywords.NodeAPI{Ctx: ctx, Base: "http://" + p.http + "/api/v1/", Token: strings.TrimSpace(string(token))}, err
}
