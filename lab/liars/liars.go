// Package liars runs real nodes in processes of their own, some of which are built to lie, and follows what readers behind
// the honest ones see: which items of the origins and of a publisher they lack, and what is said of forged ones.
//
// The liars run the daemon that ships; a Liar stands between it and the world.
package liars

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/proxy"
)

// A Config describes a run.
type Config struct {
	Honest, Liars int
	Feeds         int
	Interval      time.Duration // of polls, and of maintenance
	Length        int           // polling intervals for which the liars lie
	Seed          uint64
	Dir           string // for data directories
	// Command starts a node. The arguments are those of NodeFlags.
	Command func(ctx context.Context, args ...string) *exec.Cmd
}

// A Result is what readers behind the honest nodes saw. Its fields are its JSON.
type Result struct {
	Honest   int            `json:"honest_nodes"`
	Liars    int            `json:"lying_nodes"`
	Items    int            `json:"items"`     // pairs of a reader and an item that an origin showed
	Missing  int            `json:"missing"`   // of these, at the end
	SlowestS float64        `json:"slowest_s"` // longest time from an origin to a reader
	Forged   map[string]int `json:"forged"`    // pairs of a reader and a forged item, by what was said of it at the end
	Polls    float64        `json:"polls"`     // of the web server while they lied, divided by those of the readers alone
	Told     int            `json:"told"`      // readers' feeds with a forged item, or with a problem, of which the reader is told
	Deceived int            `json:"deceived"`  // readers' feeds with a forged item of which nothing is said
}

const (
	startTimeout = time.Minute
	// lastItems is the time before the end, in polling intervals, after which items do not count as missing.
	lastItems = 4
)

// Run makes a run. progress is called with what happens and the share that is done.
func (c Config) Run(ctx context.Context, progress func(what string, done float64)) (r Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o, err := c.serve()
	if err != nil {
		return r, err
	}
	defer o.close()
	var nodes []*process
	defer func() {
		cancel()
		for _, p := range nodes {
			_ = p.cmd.Wait() // it was killed
		}
	}()
	progress("nodes start", 0)
	lieAt := time.Now().Add(startTimeout / 2)
	for i := range c.Honest + c.Liars {
		args := []string{"--data", filepath.Join(c.Dir, strconv.Itoa(i)), "--interval", c.Interval.String(), "--owners", strconv.Itoa(min(8, c.Honest+c.Liars))}
		if i > 0 {
			args = append(args, "--bootstrap", nodes[0].peer)
		}
		if i >= c.Honest {
			args = append(args, "--lies-at", lieAt.Format(time.RFC3339))
		}
		p, err := start(c.Command(ctx, args...))
		if err != nil {
			return r, err
		}
		nodes = append(nodes, p)
	}
	w := &watch{began: o.began, readers: map[readerFeed]*readerState{}}
	for i, p := range nodes[:c.Honest] {
		for f := range c.Feeds {
			address, err := p.subscribe(ctx, o.url(f))
			if err != nil {
				return r, err
			}
			w.readers[readerFeed{i, f}] = &readerState{address: address, seen: map[string]time.Time{}}
		}
	}
	before := 0
	end := lieAt.Add(time.Duration(c.Length) * c.Interval)
	for now := time.Now(); now.Before(end); now = time.Now() {
		w.read(ctx)
		what := "all nodes are honest"
		if now.Before(lieAt) {
			before = len(o.served.Requests())
		} else {
			what = fmt.Sprintf("%d of %d nodes lie", c.Liars, len(nodes))
		}
		progress(what, 1-float64(end.Sub(now))/float64(end.Sub(o.began)))
		select {
		case <-ctx.Done():
			return r, context.Cause(ctx)
		case <-time.After(min(time.Second, c.Interval/4)):
		}
	}
	r = w.result(o, end.Add(-lastItems*c.Interval))
	r.Honest, r.Liars = c.Honest, c.Liars
	r.Polls = float64(len(o.served.Requests())-before) / float64(c.Honest*c.Feeds*c.Length)
	for i, p := range nodes[:c.Honest] {
		if err := w.ask(ctx, i, p, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// An origins is the web server of a run.
type origins struct {
	base    string
	began   time.Time
	scripts []*script.Lively
	server  *http.Server
	served  *origin.Origin
}

// serve serves the feeds.
func (c Config) serve() (*origins, error) {
	o := &origins{began: time.Now()}
	o.served = origin.New(func() time.Duration { return time.Since(o.began) })
	for f := range c.Feeds {
		s := script.NewLively(script.Config{Seed: c.Seed<<16 + uint64(f), Every: 3 * c.Interval, Window: 100})
		o.scripts = append(o.scripts, s)
		o.served.Play("/"+strconv.Itoa(f), s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve feeds: %w", err)
	}
	o.base = "http://" + l.Addr().String() + "/"
	o.server = &http.Server{Handler: o.served, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = o.server.Serve(l) }() // it ends with close
	return o, nil
}

func (o *origins) close()           { _ = o.server.Close() }
func (o *origins) url(f int) string { return o.base + strconv.Itoa(f) }

// A process is a node.
type process struct {
	cmd        *exec.Cmd
	http, peer string
}

// start starts a node and waits for its addresses.
func start(cmd *exec.Cmd) (*process, error) {
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	p := &process{cmd: cmd}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	for late := time.After(startTimeout); p.http == "" || p.peer == ""; {
		select {
		case line, ok := <-lines:
			if !ok {
				return nil, errors.New("a node ended at its start")
			}
			switch what, where, _ := strings.Cut(line, " "); what {
			case "reader":
				p.http = where
			case "peer":
				p.peer = where
			}
		case <-late:
			return nil, errors.New("a node does not start")
		}
	}
	go func() {
		for range lines { // so that the node can go on
		}
	}()
	return p, nil
}

// call calls the node's API, which takes a process of the same user for the user.
func (p *process) call(ctx context.Context, method, path string, body, answer any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.http+"/api/v1/"+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Tidings", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, answer)
}

// subscribe subscribes a reader to a feed, and returns the reader's address.
func (p *process) subscribe(ctx context.Context, url string) (string, error) {
	var answer struct {
		ReadURL string `json:"read_url"`
	}
	var err error
	for range 30 { // the node may be joining
		if err = p.call(ctx, http.MethodPost, "subscribe", map[string]string{"url": url}, &answer); err == nil {
			return answer.ReadURL, nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
	return "", fmt.Errorf("subscribe: %w", err)
}

// A watch follows what readers see.
type watch struct {
	began   time.Time
	readers map[readerFeed]*readerState
}

// A readerFeed is a feed of the reader behind a node.
type readerFeed struct{ node, feed int }

type readerState struct {
	address string
	seen    map[string]time.Time // by title, when it was first seen
	said    map[string]string    // what is said of each item now, by title
}

// read reads all feeds once. A node that does not answer is asked again later.
func (w *watch) read(ctx context.Context) {
	var all sync.WaitGroup
	for _, r := range w.readers {
		all.Go(func() {
			now := time.Now()
			items, err := readItems(ctx, r.address)
			if err != nil {
				return
			}
			r.said = items
			for title := range items {
				if _, ok := r.seen[title]; !ok {
					r.seen[title] = now
				}
			}
		})
	}
	all.Wait()
}

// readItems reads a feed as JSON, and returns what is said of each item.
func readItems(ctx context.Context, address string) (map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s: %s, %w", address, resp.Status, err)
	}
	doc, err := feed.Parse(raw, resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	items := map[string]string{}
	for _, it := range doc.Items {
		if v, err := it.Meaning(address); err == nil {
			items[v.Title] = provenanceOf(it.Raw)
		}
	}
	return items, nil
}

// provenanceOf returns what a node says of an item that it serves.
func provenanceOf(raw []byte) string {
	_, rest, _ := bytes.Cut(raw, []byte(":provenance"))
	_, rest, _ = bytes.Cut(rest, []byte(">"))
	text, _, _ := bytes.Cut(rest, []byte("<"))
	return string(text)
}

// result returns what was seen. Items that were published after last do not count.
func (w *watch) result(o *origins, last time.Time) Result {
	r := Result{Forged: map[string]int{}}
	for at, s := range w.readers {
		lively := o.scripts[at.feed]
		for n := range lively.Published(last.Sub(o.began)) {
			it := lively.Item(n)
			r.Items++
			seen, ok := s.seen[it.Title]
			if !ok {
				r.Missing++
				continue
			}
			if it.At > 0 {
				r.SlowestS = max(r.SlowestS, seen.Sub(o.began.Add(it.At)).Seconds())
			}
		}
		for _, title := range slices.Sorted(maps.Keys(s.said)) {
			if strings.HasPrefix(title, ForgedTitle) {
				r.Forged[s.said[title]]++
			}
		}
	}
	return r
}

// ask asks a node what it tells of the feeds with forged items.
func (w *watch) ask(ctx context.Context, node int, p *process, r *Result) error {
	var list proxy.ListResponse
	if err := p.call(ctx, http.MethodGet, "list", nil, &list); err != nil {
		return err
	}
	for at, s := range w.readers {
		if at.node != node {
			continue
		}
		state := proxy.StateOK
		for _, ch := range list.Channels {
			if strings.HasSuffix(ch.URL, "/"+strconv.Itoa(at.feed)) {
				state = ch.State
			}
		}
		forged, told := false, state != proxy.StateOK
		for title, said := range s.said {
			if strings.HasPrefix(title, ForgedTitle) {
				forged, told = true, told || strings.HasPrefix(said, "contested")
			}
		}
		switch {
		case forged && told:
			r.Told++
		case forged:
			r.Deceived++
		}
	}
	return nil
}

// Network returns the network of a run.
func Network(interval time.Duration, owners int) wire.Network {
	n := wire.DefaultNetwork("liars")
	n.PollInterval, n.MaintenanceInterval, n.BeatInterval = interval, interval, 4*interval
	n.Owners, n.PrivateAddresses = owners, true
	return n
}
