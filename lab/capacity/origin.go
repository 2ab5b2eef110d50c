package capacity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tidings/internal/feed"
)

// An origin serves feeds that never change, each with itemsOfFeed items. They are at many loopback addresses where the system
// has those, because a node limits its requests to one host.
type origin struct {
	server   http.Server
	port     int
	requests atomic.Int64
	ended    chan struct{}
}

const (
	itemsOfFeed   = 5
	feedsOfHost   = 100
	loopbackHosts = 200 // by the last byte of the address
)

// openOrigin serves until close is called.
func openOrigin(ctx context.Context) (*origin, error) {
	address := "127.0.0.1:0"
	if runtime.GOOS == "linux" {
		address = "0.0.0.0:0" // each address of 127.0.0.0/8 is this machine's
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", address)
	if err != nil {
		return nil, fmt.Errorf("serve feeds: %w", err)
	}
	o := &origin{port: l.Addr().(*net.TCPAddr).Port, ended: make(chan struct{})}
	o.server.Handler, o.server.ReadHeaderTimeout = http.HandlerFunc(o.serve), time.Minute
	go func() {
		defer close(o.ended)
		_ = o.server.Serve(l) // ends when close is called
	}()
	return o, nil
}

func (o *origin) close() error {
	err := o.server.Close()
	<-o.ended
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// serve answers with a feed. The number in its path is also its ETag.
func (o *origin) serve(w http.ResponseWriter, r *http.Request) {
	o.requests.Add(1)
	number, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/feed"), ".xml"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	tag := strconv.Quote(strconv.Itoa(number))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<rss version="2.0"><channel><title>Feed %d</title><link>http://%s/</link><description>Measured</description>`, number, r.Host)
	for i := range itemsOfFeed {
		fmt.Fprintf(&b, `<item><title>Item %d of feed %d</title><link>http://%s/%d/%d</link><guid>%d/%d</guid><description>%s</description></item>`,
			i, number, r.Host, number, i, number, i, strings.Repeat("This item never changes. ", 8))
	}
	b.WriteString("</channel></rss>")
	w.Header().Set("Content-Type", "application/rss+xml")
	_, _ = io.WriteString(w, b.String()) // an error means that the node has disconnected
}

// opml returns a list of the first n feeds in 20 folders.
func (o *origin) opml(n int) []byte {
	folders := make([]feed.Outline, min(n, 20))
	for i := range folders {
		folders[i].Text = fmt.Sprintf("Folder %d", i)
	}
	for i := range n {
		host := "127.0.0.1"
		if runtime.GOOS == "linux" {
			at := i / feedsOfHost
			host = fmt.Sprintf("127.0.%d.%d", 1+at/loopbackHosts, 1+at%loopbackHosts)
		}
		f := &folders[i%len(folders)]
		f.Outlines = append(f.Outlines, feed.Outline{Text: fmt.Sprintf("Feed %d", i), Type: "rss", XMLURL: fmt.Sprintf("http://%s:%d/feed%d.xml", host, o.port, i)})
	}
	return feed.AppendOPML(nil, "Capacity", folders)
}
