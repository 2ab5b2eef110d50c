package table2

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"tidings/internal/env"
)

// origins are the origins of all channels of a workload. A channel is updated at random times; its
// document has its latest items with their dates. Two origins of one workload that are opened at
// the same time are identical.
type origins struct {
	load  *Workload
	of    []origin
	docs  []document
	etags []string // of the n-th update
}

// An origin is the part of a channel's state that every poll uses.
type origin struct {
	next    int64 // time of the next update
	updates int32 // number of updates so far
}

// A document is the content of a channel.
type document struct {
	rng   rand.PCG
	dates [itemsPerDocument]int64 // of its items in seconds, the newest first
}

// itemsPerDocument is the number of items of a document.
const itemsPerDocument = 4

// documentSize is the size of all documents in bytes: content has the same size everywhere, as in
// the paper's simulation.
const documentSize = 1 << 10

func newOrigins(load *Workload) *origins {
	w := &origins{load: load, of: make([]origin, len(load.Channels)), docs: make([]document, len(load.Channels))}
	for i := range w.of {
		w.of[i].next = math.MaxInt64
		w.docs[i].rng = *rand.NewPCG(uint64(load.Seed), uint64(i))
	}
	return w
}

// open starts the updates of the channels.
func (w *origins) open(now int64) {
	for i := range w.of {
		d, at := &w.docs[i], now
		for j := range d.dates {
			at -= w.pause(i)
			d.dates[j] = at / int64(time.Second)
		}
		w.of[i].next = now + w.pause(i)
	}
}

// pause returns the time between two updates of a Poisson process.
func (w *origins) pause(channel int) int64 {
	u := float64(w.docs[channel].rng.Uint64()>>11) / (1 << 53)
	return int64(-math.Log(1-u) * float64(w.load.Channels[channel].Update))
}

// update updates a channel once if an update is due, and returns the time of that update.
func (w *origins) update(channel int, now int64) (at int64, updated bool) {
	o := &w.of[channel]
	if o.next > now {
		return 0, false
	}
	at = o.next
	o.updates++
	d := &w.docs[channel]
	copy(d.dates[1:], d.dates[:])
	d.dates[0] = at / int64(time.Second)
	o.next += w.pause(channel)
	return at, true
}

// ask answers a poll of a channel. It builds a document only if the poller has another version.
func (w *origins) ask(i int, r *env.Request, now int64) env.Answer {
	for updated := true; updated; {
		_, updated = w.update(i, now)
	}
	o := &w.of[i]
	for len(w.etags) <= int(o.updates) {
		w.etags = append(w.etags, strconv.Itoa(len(w.etags)))
	}
	a := env.Answer{Status: 304, FinalURL: r.URL, ETag: w.etags[o.updates]}
	if r.ETag != a.ETag {
		a.Status, a.ContentType, a.Body = 200, "application/rss+xml", w.document(i)
	}
	return a
}

// document returns the current document of a channel.
func (w *origins) document(channel int) []byte {
	o, d := &w.of[channel], &w.docs[channel]
	b := make([]byte, 0, documentSize)
	b = fmt.Appendf(b, "<rss version=\"2.0\"><channel><title>Feed %d</title><link>%s</link><description/>", channel, w.load.URL(channel))
	for i, at := range d.dates {
		b = fmt.Appendf(b, "<item><guid>%d/%d</guid><title>Item</title><pubDate>%s</pubDate></item>",
			channel, int(o.updates)-i, time.Unix(at, 0).UTC().Format(time.RFC1123Z))
	}
	const end = "</channel></rss>"
	for len(b) < documentSize-len(end) {
		b = append(b, ' ')
	}
	return append(b, end...)
}

// channelOf returns the channel of a Workload.URL.
func channelOf(url string) (channel int) {
	for _, c := range []byte(url[len("http://feed"):]) {
		if c < '0' || c > '9' {
			break
		}
		channel = 10*channel + int(c-'0')
	}
	return channel
}
