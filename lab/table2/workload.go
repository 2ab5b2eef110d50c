package table2

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"time"
)

// A Workload is what the members of a world read (Corona §5.1). Popularity follows Zipf's law with
// an exponent of 0.5. Of the update intervals the paper says that a tenth are below an hour and
// half are never seen to change; the distribution below an hour is ours.
type Workload struct {
	Seed     int64
	Members  int
	Channels []Channel
	domains  []int32 // of the channels; nil: each has its own
}

// A Channel is a channel of a workload.
type Channel struct {
	Subscribers int           // clients in the whole network, at least 0
	Update      time.Duration // mean time between two updates of a Poisson process
}

// Paper returns the workload of the paper's simulation.
func Paper(seed int64) *Workload { return NewWorkload(seed, 1024, 100_000, 5_000_000) }

// NewWorkload returns a workload of about the given number of subscriptions: each channel's exact
// share is rounded at random. The same arguments give the same workload.
func NewWorkload(seed int64, members, channels, subscriptions int) *Workload {
	w := &Workload{Seed: seed, Members: members, Channels: make([]Channel, channels)}
	rng := rand.New(rand.NewSource(seed*7919 + 17))
	sum := 0.
	for i := range channels {
		sum += 1 / math.Sqrt(float64(i+1))
	}
	for i := range w.Channels {
		whole, part := math.Modf(float64(subscriptions) / sum / math.Sqrt(float64(i+1)))
		if rng.Float64() < part {
			whole++
		}
		w.Channels[i].Subscribers = int(whole)
	}
	between := func(lo, hi time.Duration) time.Duration {
		return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), rng.Float64()))
	}
	for i := range w.Channels {
		u := &w.Channels[i].Update
		switch class := rng.Float64(); {
		case class < 0.1:
			*u = between(10*time.Minute, time.Hour)
		case class < 0.5:
			*u = between(time.Hour, 5*24*time.Hour)
		default:
			*u = 7 * 24 * time.Hour
		}
	}
	return w
}

// Subscriptions returns the sum of all channels' subscribers.
func (w *Workload) Subscriptions() (sum int) {
	for _, c := range w.Channels {
		sum += c.Subscribers
	}
	return sum
}

// Heap returns about the largest heap of its world in bytes, including garbage.
func (w *Workload) Heap() int { return w.Subscriptions() * 2000 }

// URL returns a channel's address.
func (w *Workload) URL(channel int) string {
	if w.domains != nil {
		return fmt.Sprintf("http://feed%d.domain%d.example/%d", channel, w.domains[channel], w.Seed)
	}
	return fmt.Sprintf("http://feed%d.example/%d", channel, w.Seed)
}

// ChannelID and MemberID return the first bits of the ids of channels and members in the paper's
// formula. In a World the ids are those of its network.
func (w *Workload) ChannelID(channel int) uint64 { return sha1Head(w.URL(channel)) }

// MemberID: see ChannelID.
func (w *Workload) MemberID(member int) uint64 {
	return sha1Head(fmt.Sprintf("10.%d.%d.%d:4000", w.Seed, member/256, member%256))
}

func sha1Head(name string) uint64 {
	sum := sha1.Sum([]byte(name))
	return binary.BigEndian.Uint64(sum[:])
}

// A Membership is a channel that clients of a member read.
type Membership struct {
	Channel int32
	Weight  int32 // number of clients
}

// Memberships assigns each subscription to a random member. It returns what each member's clients
// read, in the order in which they subscribe.
func (w *Workload) Memberships() [][]Membership {
	rng := rand.New(rand.NewSource(w.Seed*7919 + 18))
	of := make([][]Membership, w.Members)
	for i := range of {
		of[i] = make([]Membership, 0, w.Subscriptions()/w.Members*9/8)
	}
	for i, c := range w.Channels {
		for range c.Subscribers {
			m := rng.Intn(w.Members)
			if n := len(of[m]); n > 0 && of[m][n-1].Channel == int32(i) {
				of[m][n-1].Weight++
			} else {
				of[m] = append(of[m], Membership{Channel: int32(i), Weight: 1})
			}
		}
	}
	for _, list := range of {
		rng.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
	}
	return of
}
