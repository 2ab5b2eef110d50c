package table2

import (
	"slices"
	"time"

	"tidings/honeycomb"
)

// Polls measures the value of a world's polls, one span of time after the other.
type Polls struct {
	load      *Workload
	interval  time.Duration
	channels  []channelPolls
	crowded   []bool // channels of crowded domains
	members   []int  // number of polls of each member
	origins   *origins
	spanStart int64 // start of the present span
	delays
	series *Polls // measures shorter spans of the same polls; nil: none are wanted
}

// channelPolls are the polls of a channel in a span: the start of the first gap that ended in it,
// the end of the last, their number, and the sum of their squares.
type channelPolls struct {
	first, last int64
	squares     float64 // s²
	n           int32
}

// delays are the delays of the updates that were seen in a span.
type delays struct {
	updates             int
	event, eventWeight  float64 // weighted by the channel's mean time between updates
	notified, notifieds float64 // weighted by subscribers
}

func newPolls(load *Workload, interval time.Duration) *Polls {
	return &Polls{load: load, interval: interval, channels: make([]channelPolls, len(load.Channels)), crowded: make([]bool, len(load.Channels)), members: make([]int, load.Members), origins: newOrigins(load)}
}

// open starts the measurement.
func (p *Polls) open(now int64) {
	if p.series != nil {
		p.series.open(now)
	}
	p.spanStart = now
	p.origins.open(now)
	for i := range p.channels {
		p.channels[i] = channelPolls{first: now, last: now}
	}
}

// note adds a poll, and the updates that it was the first to see. Polls must be added in the order
// of their times.
func (p *Polls) note(of poll) {
	channel := int(of.channel)
	p.polled(channel, int(of.member), of.at)
	for {
		at, updated := p.origins.update(channel, of.at)
		if !updated {
			return
		}
		p.seen(channel, of.at-at)
	}
}

// polled adds a poll.
func (p *Polls) polled(channel, member int, now int64) {
	if p.series != nil {
		p.series.polled(channel, member, now)
	}
	c := &p.channels[channel]
	gap := float64(now-c.last) / 1e9
	c.squares += gap * gap
	c.last = now
	c.n++
	p.members[member]++
}

// seen adds the delay between an update and the first poll that saw it.
func (p *Polls) seen(channel int, delay int64) {
	if p.series != nil {
		p.series.seen(channel, delay)
	}
	c := &p.load.Channels[channel]
	q, u, d := float64(c.Subscribers), c.Update.Seconds(), float64(delay)/1e9
	p.updates++
	p.event += q * u * d
	p.eventWeight += q * u
	p.notified += q * d
	p.notifieds += q
}

// A Span is the value of the polls in a span of time.
type Span struct {
	Hours float64 `json:"hours"`
	// Load is the number of polls per polling interval and channel.
	Load float64 `json:"load"`
	// Detection is the mean wait of subscribers in seconds, as an integral over time: Σqg²/Σ2qg
	// over the gaps g between two polls.
	Detection float64 `json:"detection_s"`
	// Crowded is the same for channels on crowded domains; 0: there are none.
	Crowded float64 `json:"detection_crowded_s,omitempty"`
	// Event is the same for actual updates, each weighted by its channel's mean time between
	// updates; 0: there were none.
	Event float64 `json:"detection_event_s,omitempty"`
	// Notification is the mean delay of notifications to subscribers, as an integral over time;
	// NotificationEvent that of actual updates; 0: there were none.
	Notification      float64 `json:"notification_s"`
	NotificationEvent float64 `json:"notification_event_s,omitempty"`
	Updates           int     `json:"updates"`
	// Evenness is Detection divided by what it would be if the same polls were evenly spaced.
	Evenness float64 `json:"evenness"`
	// MemberMax is the number of polls of the busiest member, divided by the mean.
	MemberMax float64 `json:"polls_max_mean"`
}

// A ChannelSpan is the value of the polls of one channel in a span.
type ChannelSpan struct {
	Polls     float64 // per polling interval
	Detection float64 // in seconds; 0: fewer than two polls
}

// Channels returns these values of all channels for the present span.
func (p *Polls) Channels(now int64) []ChannelSpan {
	of := make([]ChannelSpan, len(p.channels))
	for i := range p.channels {
		c := &p.channels[i]
		of[i].Polls = float64(c.n) * p.interval.Seconds() / (float64(now-p.spanStart) / 1e9)
		if span := float64(c.last-c.first) / 1e9; span > 0 {
			of[i].Detection = c.squares / (2 * span)
		}
	}
	return of
}

// Close ends a span and begins another one.
func (p *Polls) Close(now int64) Span {
	length := float64(now-p.spanStart) / 1e9
	tau := p.interval.Seconds()
	s := Span{Hours: length / 3600, Updates: p.updates}
	polls, wait, even, subscribers, told, tellings := 0., 0., 0., 0., 0., 0.
	crowdedWait, crowdedSubscribers := 0., 0.
	for i := range p.channels {
		c := &p.channels[i]
		q, u := float64(p.load.Channels[i].Subscribers), p.load.Channels[i].Update.Seconds()
		span, squares, n := float64(c.last-c.first)/1e9, c.squares, float64(c.n)
		if c.n == 0 {
			span, n = float64(now-c.first)/1e9, 1
			squares = span * span
		}
		if span > 0 {
			w := squares / (2 * span)
			wait += q * w
			even += q * span / (2 * n)
			told += q / u * w
			subscribers += q
			tellings += q / u
			if p.crowded[i] {
				crowdedWait += q * w
				crowdedSubscribers += q
			}
		}
		polls += float64(c.n)
		c.first, c.squares, c.n = c.last, 0, 0
	}
	s.Load = polls / float64(len(p.channels)) * tau / length
	s.Detection, s.Evenness, s.Notification = wait/subscribers, wait/even, told/tellings
	if crowdedSubscribers > 0 {
		s.Crowded = crowdedWait / crowdedSubscribers
	}
	if p.updates > 0 {
		s.Event, s.NotificationEvent = p.event/p.eventWeight, p.notified/p.notifieds
	}
	s.MemberMax = float64(slices.Max(p.members)) / (polls / float64(len(p.members)))
	clear(p.members)
	p.spanStart, p.delays = now, delays{}
	return s
}

// Problem returns the optimisation problem of the members, and the channels with their true
// tradeoff factors.
func (w *Workload) Problem(objective honeycomb.Objective, interval time.Duration, load float64, detection time.Duration) (*honeycomb.Problem, []honeycomb.Channel) {
	p := &honeycomb.Problem{
		Objective: objective, Granularity: honeycomb.Ranks, Base: 16, Nodes: w.Members, Interval: interval, Load: load, Detection: detection,
	}
	channels := make([]honeycomb.Channel, len(w.Channels))
	for i, c := range w.Channels {
		channels[i] = honeycomb.Channel{Subscribers: float64(c.Subscribers), Update: c.Update, Key: w.ChannelID(i)}
	}
	return p, channels
}

// Bound returns the bound of all schedules.
func Bound(p *honeycomb.Problem, channels []honeycomb.Channel) honeycomb.Measurement {
	n := honeycomb.Ideal(p, channels)
	return honeycomb.Measure(p, channels, func(i int) float64 { return n[i] })
}
