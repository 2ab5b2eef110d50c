package keywords

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tidings/internal/daemon"
	"tidings/internal/wire"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// A NodeRun is the result for one node, a process of its own, with that many keyword subscriptions. Times of
// requests are those of the HTTP API, in seconds.
type NodeRun struct {
	Subscriptions int     `json:"subscriptions"`
	RSS           int     `json:"rss_bytes"`
	Mapped        int     `json:"mapped_bytes"`      // of these, pages of files
	Disk          int64   `json:"disk_bytes"`        // all files of keyword subscriptions
	Create        float64 `json:"us_to_create"`      // microseconds per subscription, written straight into the store
	Start         float64 `json:"start_s"`           // from the start of the process to the first answered request
	FirstPage     float64 `json:"first_page_s"`      // of the list of subscriptions
	LastPage      float64 `json:"last_page_s"`       // of the same list
	Filtered      float64 `json:"filtered_s"`        // the first page of those whose query contains a text
	All           float64 `json:"whole_list_s"`      // all pages of the list
	Listed        int     `json:"listed"`            // subscriptions on them
	Watch         float64 `json:"watch_s"`           // until a new subscription is durable, median
	Again         float64 `json:"watch_again_s"`     // the same query once more, median
	Unwatch       float64 `json:"unwatch_s"`         // by the address of its feed, median
	UnwatchSlow   float64 `json:"unwatch_slowest_s"` // the slowest of these
	ByQuery       float64 `json:"unwatch_by_query_s"`
	IdleCPU       float64 `json:"idle_cpu"` // share of a core while nothing happens
}

// A NodeConfig says what MeasureNodes measures.
type NodeConfig struct {
	Dir           string // for the data directory, which grows from one number of subscriptions to the next
	Subscriptions []int  // ascending
	Rest          time.Duration
	// Command starts a process that calls HoldNode with a data directory.
	Command func(ctx context.Context, dir string) *exec.Cmd
	// Memory returns the resident memory of a process, and how much of it is pages of files.
	Memory func(pid int) (resident, mapped int)
	// CPUTime returns the CPU time of a process.
	CPUTime func(pid int) time.Duration
}

// HoldNode runs the daemon that ships, alone in a network of its own, until ctx ends. It first prints the address
// for readers.
func HoldNode(ctx context.Context, dir string, out io.Writer) error {
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		return err
	}
	d := daemon.DefaultConfig(dir)
	d.Listen, d.HTTP, d.PortMap, d.PrivateAddresses = []string{"/ip4/127.0.0.1/tcp/0"}, "127.0.0.1:0", false, true
	network := wire.DefaultNetwork("keywords")
	network.PrivateAddresses = true
	d.Found = &network
	node, err := daemon.Open(d)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", node.HTTPAddr()); err != nil {
		return err
	}
	return node.Run(ctx)
}

// MeasureNodes measures a node with each number of subscriptions, and calls each with every result.
func MeasureNodes(ctx context.Context, c NodeConfig, progress func(what string, done float64), each func(NodeRun)) error {
	words, r, made := PaperWords(), rand.New(rand.NewPCG(7, 1)), 0
	for _, n := range c.Subscriptions {
		run := NodeRun{Subscriptions: n}
		what := fmt.Sprintf("%d subscriptions", n)
		begin := time.Now()
		fill := func() error {
			d, err := openReflector(c.Dir, begin)
			if err != nil {
				return err
			}
			err = d.subscribe(ctx, words, r, n-made, func(done float64) { progress(what, 0.7*done) })
			return errors.Join(err, d.disk.Close())
		}
		if err := fill(); err != nil {
			return fmt.Errorf("subscriptions: %w", err)
		}
		run.Create = micro(time.Since(begin)) / float64(n-made)
		made = n
		progress(what, 0.7)
		left, err := run.measure(ctx, c, words, r)
		if err != nil {
			return err
		}
		made = left
		each(run)
	}
	return nil
}

// measure runs a node, and returns how many subscriptions are left.
func (run *NodeRun) measure(ctx context.Context, c NodeConfig, words *Words, r *rand.Rand) (left int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := c.Command(ctx, c.Dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start a node: %w", err)
	}
	defer func() {
		_ = cmd.Process.Kill() // the next run finds the store as after a crash
		_ = cmd.Wait()         // an error says that it was killed
	}()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the node has not started: %w", err)
	}
	token, err := os.ReadFile(daemon.APITokenFile(c.Dir))
	if err != nil {
		return 0, err
	}
	a := NodeAPI{ctx, "http://" + strings.TrimSpace(address) + "/api/v1/", strings.TrimSpace(string(token))}
	var last proxy.WatchResponse
	if err := a.Timed(&run.Start, "watches", nil, &last); err != nil {
		return 0, err
	}
	run.Start = time.Since(begin).Seconds()
	if last, err = run.list(a); err != nil {
		return 0, err
	}
	if left, err = run.change(a, last, words, r); err != nil {
		return 0, err
	}
	spent, from := c.CPUTime(cmd.Process.Pid), time.Now()
	select {
	case <-time.After(c.Rest):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	run.IdleCPU = (c.CPUTime(cmd.Process.Pid) - spent).Seconds() / time.Since(from).Seconds()
	run.RSS, run.Mapped = c.Memory(cmd.Process.Pid)
	for _, pattern := range []string{"keywords.db*", filepath.Join("keywords.db.bodies", "*")} {
		files, err := filepath.Glob(filepath.Join(c.Dir, pattern))
		if err != nil {
			return 0, err
		}
		for _, name := range files {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				run.Disk += info.Size()
			}
		}
	}
	return left, nil
}

// list reads the list of subscriptions, page by page, and returns the last page.
func (run *NodeRun) list(a NodeAPI) (page proxy.WatchResponse, err error) {
	begin := time.Now()
	for path := "watches"; ; path = fmt.Sprintf("watches?from=%d", page.Next) {
		page = proxy.WatchResponse{}
		if err := a.Timed(&run.LastPage, path, nil, &page); err != nil {
			return page, err
		}
		if run.Listed == 0 {
			run.FirstPage = run.LastPage
		}
		if run.Listed += len(page.Watches); page.Next == 0 {
			break
		}
	}
	run.All = time.Since(begin).Seconds()
	return page, a.Timed(&run.Filtered, "watches?limit=100&filter="+url.QueryEscape(page.Watches[len(page.Watches)-1].Query), nil, &proxy.WatchResponse{})
}

// nodeChanges is how many subscriptions are made and ended.
const nodeChanges = 21

// change makes and ends subscriptions, and returns how many are left.
func (run *NodeRun) change(a NodeAPI, last proxy.WatchResponse, words *Words, r *rand.Rand) (left int, err error) {
	var watch, again, unwatch []float64
	var addresses []string
	for range nodeChanges {
		text := string(words.Text(nil, words.Subscription(r, nil)))
		for _, times := range []*[]float64{&watch, &again} {
			var took float64
			var made proxy.WatchResponse
			if err := a.Timed(&took, "watch", proxy.Watch{Query: text}, &made); err != nil {
				return 0, err
			}
			*times = append(*times, took)
			if times == &watch {
				addresses = append(addresses, made.Watches[0].ReadURL)
			}
		}
	}
	for _, address := range addresses {
		var took float64
		if err := a.Timed(&took, "unwatch", proxy.Watch{Query: address}, &proxy.WatchResponse{}); err != nil {
			return 0, err
		}
		unwatch = append(unwatch, took)
	}
	run.Watch, run.Again = median(watch), median(again)
	run.Unwatch, run.UnwatchSlow = median(unwatch), unwatch[len(unwatch)-1]
	var answer proxy.WatchResponse
	err = a.Timed(&run.ByQuery, "unwatch", proxy.Watch{Query: last.Watches[len(last.Watches)-1].Query}, &answer)
	return answer.Total, err
}

// NodeAPI calls the HTTP API of a node.
type NodeAPI struct {
	Ctx         context.Context //nolint:containedctx // of one measurement
	Base, Token string
}

// Timed makes a request and sets took to the seconds until it was answered.
func (a NodeAPI) Timed(took *float64, path string, body, answer any) error {
	method := http.MethodGet
	var b []byte
	if body != nil {
		method = http.MethodPost
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
	}
	begin := time.Now()
	req, err := http.NewRequestWithContext(a.Ctx, method, a.Base+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.Token)
	req.Header.Set("Tidings", "1")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	*took = time.Since(begin).Seconds()
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", bytes.TrimSpace(data))
	}
	if err == nil {
		err = json.Unmarshal(data, answer)
	}
	if err != nil {
		return fmt.Errorf("%s: status %d: %w", path, res.StatusCode, err)
	}
	return nil
}

// median returns the median of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	return quantile(values, 0.5)
}
