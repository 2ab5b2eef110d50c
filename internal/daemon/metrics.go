package daemon

import (
	"context"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tidings/internal/fetch"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// metrics collects the counts of a node for Prometheus, named tidings_<layer>_<count>. Layers and names are
// those of the Stats structs. Counters end in _total. No label names a feed, a peer or an address: there may
// be thousands of them, and what a user reads is private.
type metrics struct {
	*status
	fetch  *fetch.Client
	states *stateCounts
}

// collectTimeout bounds how long the loop may take to answer. maxScrapes bounds concurrent requests.
const (
	collectTimeout = 5 * time.Second
	maxScrapes     = 2
)

// handler serves the metrics of the node, its process and the Go runtime.
func (m metrics) handler() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(m, collectors.NewGoCollector(), ownProcess{collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		ErrorHandling:       promhttp.HTTPErrorOnError,
	})
}

// ownProcess collects what the operating system knows about this process. It leaves out the counters of
// network traffic, because on Linux they count the traffic of the whole machine.
type ownProcess struct{ prometheus.Collector }

// Collect implements [prometheus.Collector].
func (p ownProcess) Collect(out chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		p.Collector.Collect(all)
	}()
	for m := range all {
		if !strings.Contains(m.Desc().String(), `"process_network_`) {
			out <- m
		}
	}
}

// Describe implements [prometheus.Collector]. It describes nothing: the metrics are known only when they are
// collected.
func (metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	info := prometheus.NewDesc("tidings_build_info", "Version of the program.", []string{"version", "goversion"}, nil)
	out <- prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, m.config.Version, runtime.Version())
	layers, err := m.layers(ctx)
	for _, l := range layers {
		l.collect(out, l.stats, nil)
	}
	if err == nil {
		err = m.subscriptions(ctx, out)
	}
	if err != nil {
		out <- prometheus.NewInvalidMetric(info, err)
	}
}

// subscriptions counts the subscriptions by state.
func (m metrics) subscriptions(ctx context.Context, out chan<- prometheus.Metric) error {
	if !m.hasJoined() {
		return nil
	}
	states, err := m.states.now(func() (map[string]int, error) {
		states := map[string]int{}
		err := m.channels.each(ctx, func(c *proxy.Channel) error {
			states[c.State]++
			return nil
		})
		return states, err
	})
	if err != nil {
		return err
	}
	desc := prometheus.NewDesc("tidings_subscriptions", "Subscriptions, by state; of very many, as they were up to five minutes ago.", []string{"state"}, nil)
	for state, n := range states {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), state)
	}
	return nil
}

// stateCounts holds the numbers of subscriptions by state. Counting them takes a second for a hundred thousand, and programs read
// metrics several times a minute, so a count is used again for countingShare times as long as it took, at most maxCountAge. It is safe
// for concurrent use, and its zero value has not counted yet.
type stateCounts struct {
	mu     sync.Mutex
	states map[string]int // nil: not yet counted
	until  time.Time      // the next count is due
}

const (
	countingShare = 50 // at most one part in so many of the time is spent with counting
	maxCountAge   = 5 * time.Minute
)

// now returns the last count, or a new one if that is due. Concurrent callers wait for one count. The caller does not change it.
func (c *stateCounts) now(count func() (map[string]int, error)) (map[string]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := time.Now()
	if c.states != nil && began.Before(c.until) {
		return c.states, nil
	}
	states, err := count()
	if err != nil {
		return nil, err
	}
	ended := time.Now()
	c.states, c.until = states, ended.Add(min(countingShare*ended.Sub(began), maxCountAge))
	return states, nil
}

// A layer has a name and counts.
type layer struct {
	name  string
	stats any
}

// layers returns the counts of all layers. Before the node knows its network, these are the lowest layers
// only.
func (m metrics) layers(ctx context.Context) ([]layer, error) {
	layers := []layer{
		{"transport", m.host.Stats()}, {"loop", m.loop.Stats()}, {"store", m.disk.Stats()}, {"fetch", m.fetch.Stats()}, {"tokens", m.tokens.stats()},
	}
	if !m.hasJoined() {
		return layers, nil
	}
	err := m.do(ctx, func() {
		n := m.node
		layers = append(layers, layer{"overlay", n.Overlay.Stats()}, layer{"scribe", n.Scribe.Stats()},
			layer{"owner", n.Owners.Stats()}, layer{"wedge", n.Wedges.Stats()}, layer{"sums", n.Sums.Stats()},
			layer{"corona", n.Corona.Stats()}, layer{"feedtree", n.Feeds.Stats()}, layer{"firehose", n.Firehose.Stats()}, layer{"relay", n.Relay.Stats()}, layer{"tiers", n.Tiers.Stats()})
	})
	if k := m.keywords; err == nil && k.ready() {
		err = k.do(ctx, func() { layers = append(layers, layer{"keywords", k.reflector.Stats()}) })
		recovered, lost, outstanding := k.missed.counts()
		layers = append(layers, layer{"keywords", missedStats{k.dropped.Load(), recovered, outstanding, uint64(lost), k.missed.refusals()}})
	}
	return layers, err
}

// collect sends the fields of a Stats struct as metrics.
func (l layer) collect(out chan<- prometheus.Metric, stats any, labels prometheus.Labels) {
	v := reflect.ValueOf(stats)
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name, text := "tidings_"+l.name+"_"+snake(field.Name), help[v.Type().String()+"."+field.Name]
		switch of := value.Interface().(type) {
		case libp2p.ClassStats:
			l.collect(out, of, prometheus.Labels{"class": snake(field.Name)})
		case libp2p.Drops:
			l.drops(out, of, labels)
		case uint64:
			desc := prometheus.NewDesc(name+"_total", text, nil, labels)
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(of))
		case int, int64:
			desc := prometheus.NewDesc(name, text, nil, labels)
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value.Int()))
		} // texts are no metrics
	}
}

// drops sends the numbers of dropped frames, by reason.
func (l layer) drops(out chan<- prometheus.Metric, of libp2p.Drops, labels prometheus.Labels) {
	desc := prometheus.NewDesc("tidings_"+l.name+"_drops_total", "Frames dropped, by reason.", []string{"reason"}, labels)
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v.Field(i).Uint()), snake(v.Type().Field(i).Name))
	}
}

// snake converts a field name to a metric name: DialBackFails becomes dial_back_fails.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
