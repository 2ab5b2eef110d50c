// Package aim measures what an attacker gets who wants one channel: most of the n owners of a chosen feed, in a network of
// each kind of ids (decision 026).
//
// Chances computes with the rules that ship (overlay.AddressID, overlay.Diverse) how often an attacker with m blocks of
// addresses holds at least k of the n owners of a random feed. Attack runs a network of real nodes of package sim that
// attackers join.
package aim

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/sim"
)

const (
	slotsOfBlock = 4 // members of one block of addresses
	farther      = 8 // times as many members as owners are looked at, so that enough are of different providers
)

// A Chance says how often an attacker holds most of the owners of a feed that it did not choose.
type Chance struct {
	Blocks    int     `json:"blocks"`
	Providers int     `json:"providers"` // of which the blocks are
	Held      float64 `json:"held"`      // share of the feeds
	Formula   float64 `json:"formula"`   // the binomial distribution, without the rule on providers
}

// Chances computes the chances of attackers among honest members, each of which is of a provider of its own.
func Chances(seed uint64, members, feeds int, n wire.Network, attackers []Chance) []Chance {
	out := slices.Clone(attackers)
	for i := range out {
		c := &out[i]
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		all := honest(n.Name, members, rng)
		for b := range c.Blocks {
			provider := b % c.Providers
			block := netip.PrefixFrom(netip.AddrFrom4([4]byte{200 + byte(provider>>8), byte(provider), byte(b / c.Providers), 0}), 24)
			for slot := range slotsOfBlock {
				all = append(all, &overlay.Contact{ID: overlay.AddressID(n.Name, block, slot, anyPeer(rng)), Block: block, Peer: env.Peer{Addrs: []string{"attacker"}}})
			}
		}
		held := 0
		for range feeds {
			if heldBy(all, randomKey(rng), n.Owners) >= n.Witnesses {
				held++
			}
		}
		c.Held = float64(held) / float64(feeds)
		c.Formula = AtLeast(n.Witnesses, n.Owners, float64(slotsOfBlock*c.Blocks)/float64(members+slotsOfBlock*c.Blocks))
	}
	return out
}

// honest returns honest members, each of a provider of its own.
func honest(network string, members int, rng *rand.Rand) (all []*overlay.Contact) {
	for i := range members {
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{1 + byte(i>>8), byte(i), 1, 0}), 24)
		all = append(all, &overlay.Contact{ID: overlay.AddressID(network, block, rng.IntN(slotsOfBlock), anyPeer(rng)), Block: block})
	}
	return all
}

// heldBy returns how many owners of a key belong to the attacker.
func heldBy(all []*overlay.Contact, key overlay.ID, owners int) (held int) {
	of := binary.BigEndian.Uint64(key[:])
	distance := func(c *overlay.Contact) uint64 { return binary.BigEndian.Uint64(c.ID[:]) ^ of }
	near := make([]*overlay.Contact, 0, owners*farther+1)
	for _, c := range all {
		if len(near) == cap(near)-1 && distance(c) >= distance(near[len(near)-1]) {
			continue
		}
		i, _ := slices.BinarySearchFunc(near, distance(c), func(o *overlay.Contact, d uint64) int {
			if distance(o) < d {
				return -1
			}
			return 1
		})
		near = slices.Insert(near, i, c)
		near = near[:min(len(near), cap(near)-1)]
	}
	for _, c := range overlay.Diverse(near, owners) {
		if c.Peer.Addrs != nil {
			held++
		}
	}
	return held
}

func randomKey(rng *rand.Rand) (key overlay.ID) {
	for i := range 4 {
		binary.BigEndian.PutUint64(key[8*i:], rng.Uint64())
	}
	return key
}

func anyPeer(rng *rand.Rand) env.PeerID {
	key := randomKey(rng)
	return wire.PeerIDOf(key[:])
}

// AtLeast returns the probability of at least k successes in n attempts (binomial distribution).
func AtLeast(k, n int, p float64) (sum float64) {
	for i := k; i <= n; i++ {
		choose := math.Exp(lgamma(n) - lgamma(i) - lgamma(n-i))
		sum += choose * math.Pow(p, float64(i)) * math.Pow(1-p, float64(n-i))
	}
	return sum
}

func lgamma(n int) float64 {
	v, _ := math.Lgamma(float64(n + 1))
	return v
}

// An Attack is an attack on one channel.
type Attack struct {
	IDs       string `json:"ids"`       // of the network
	Members   int    `json:"nodes"`     // honest ones
	Attackers int    `json:"attackers"` // nodes that try to join
	Joined    int    `json:"joined"`    // of these
	Tries     int    `json:"tries"`     // keys that the attacker made
	Owners    int    `json:"owners"`    // of the channel
	Held      int    `json:"held"`      // of these are the attacker's
}

// settle is the time between the last join and the count, and joinPause that between two joins.
const (
	settle    = 3 * time.Minute
	joinPause = 100 * time.Millisecond
	target    = "http://target.example/feed"
)

// Run runs an attack. In a network of key ids and in one of certificates the attacker makes keys until its nodes are
// nearer to the channel than all honest ones. In a network of address ids it has 32 blocks of two providers, and a node
// in each slot.
func (a Attack) Run(ctx context.Context, seed uint64, progress func(float64)) (Attack, error) {
	c := sim.SwarmConfig{World: sim.Config{Seed: seed, Topology: sim.King(seed)}, Network: wire.DefaultNetwork("sim")}
	if c.Network.IDs = a.IDs; a.IDs == wire.CertificateIDs {
		c.Certify(24 * time.Hour)
	}
	c.Network.PollInterval, c.Network.MaintenanceInterval = time.Minute, time.Minute
	s := sim.NewSwarm(c)
	hosts := a.attackers(c.Network.Owners, s.Key(target))
	if c.Authority != nil {
		for _, h := range hosts {
			c.Authority.Refused[wire.PeerIDOf(h.Key.Public().(ed25519.PublicKey))] = true
		}
	}
	s.Grow(a.Members, joinPause)
	var attackers []*sim.Peer
	for i, h := range hosts {
		p := s.AddHost(h, s.Peers()[0])
		attackers = append(attackers, p)
		s.After(time.Duration(a.Members+i)*joinPause, p.Start)
	}
	s.Serve(target, script.NewLively(script.Config{Seed: seed, Every: 5 * time.Minute}))
	length := time.Duration(a.Members+len(hosts))*joinPause + settle
	reader := s.Peers()[a.Members/2]
	s.After(length-settle/2, func() { reader.SubscribeFeed(target) })
	for end := s.Now().Add(length); s.Now().Before(end); {
		if ctx.Err() != nil {
			return a, context.Cause(ctx)
		}
		s.World.Run(10 * time.Second)
		progress(1 - float64(end.Sub(s.Now()))/float64(length))
	}
	v, _ := reader.Layers().Owners.View(s.Key(target))
	if v.Epoch == nil {
		return a, fmt.Errorf("ids %s: the channel has no owners", a.IDs)
	}
	a.Attackers, a.Owners = len(hosts), len(v.Epoch.Owners)
	for _, p := range attackers {
		if p.Active() {
			a.Joined++
		}
		if slices.Contains(v.Epoch.Owners, p.ID()) {
			a.Held++
		}
	}
	return a, nil
}

// attackers returns the attacker's machines.
func (a *Attack) attackers(owners int, key overlay.ID) (hosts []sim.HostConfig) {
	if a.IDs == wire.AddressIDs {
		const providers, blocks = 2, 16 // blocks of each
		for i := range providers * blocks * slotsOfBlock {
			ip := netip.AddrFrom4([4]byte{200, byte(i % providers), byte(i / providers / slotsOfBlock), byte(1 + i/providers%slotsOfBlock)})
			hosts = append(hosts, sim.HostConfig{Open: true, IP: ip, Key: madeKey(i)})
		}
		return hosts
	}
	// Of n members the nearest one shares about log2(n) bits with the key. The attacker's nodes share three more.
	want := int(math.Ceil(math.Log2(float64(a.Members)))) + 3
	for ; len(hosts) < owners; a.Tries++ {
		k := madeKey(a.Tries)
		if overlay.NodeID("sim", wire.PeerIDOf(k.Public().(ed25519.PublicKey))).Common(key) >= want {
			hosts = append(hosts, sim.HostConfig{Open: true, Key: k})
		}
	}
	return hosts
}

func madeKey(i int) ed25519.PrivateKey {
	seed := bytes.Repeat([]byte{0xa7}, ed25519.SeedSize)
	binary.BigEndian.PutUint64(seed, uint64(i))
	return ed25519.NewKeyFromSeed(seed)
}
