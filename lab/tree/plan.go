package tree

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"tidings/overlay"
)

// A topic is followed by a random share of the hosts between these two.
const minShare, maxShare = 0.05, 0.20

// minFollowers is the minimum number of followers: one that publishes, and one that receives.
const minFollowers = 2

// networkName is used for ids and keys.
const networkName = "lab"

// A plan is the work for both systems. It is determined by the seed.
type plan struct {
	hosts         int
	topics        []topic
	publications  []publication
	subscriptions int // pairs of a host and a topic
	expected      int // pairs of a publication and a follower that is not its publisher
}

type topic struct {
	key       overlay.ID
	followers []int
}

type publication struct{ topic, publisher int }

// newPlan chooses random followers for each topic, and spreads publications evenly over the topics.
func newPlan(hosts, topics, publications int, seed uint64) *plan {
	rng := rand.New(rand.NewPCG(seed, uint64(topics)))
	p := &plan{hosts: hosts}
	low := max(minFollowers, int(minShare*float64(hosts)+0.5))
	high := max(low, int(maxShare*float64(hosts)+0.5))
	for t := range topics {
		who := rng.Perm(hosts)[:low+rng.IntN(high-low+1)]
		slices.Sort(who)
		p.topics = append(p.topics, topic{overlay.Key(networkName, fmt.Sprintf("http://lab.example/%d/%d", seed, t)), who})
		p.subscriptions += len(who)
	}
	order := rng.Perm(topics)
	for i := range publications {
		t := order[i%topics]
		who := p.topics[t].followers
		p.publications = append(p.publications, publication{t, who[rng.IntN(len(who))]})
		p.expected += len(who) - 1
	}
	return p
}

// TopicsFor returns the number of topics that gives each host about so many subscriptions.
func TopicsFor(subscriptions int) int {
	return int(float64(subscriptions)/((minShare+maxShare)/2) + 0.5)
}

// batchSize is the number of topics that all hosts subscribe to at a time, about twelve each. Two
// hundred nodes on one machine, which also open connections for them, cannot handle all at once.
const batchSize = 100

// batches yields the first topic of each batch.
func (p *plan) batches() iter.Seq[int] {
	return func(yield func(int) bool) {
		for t := 0; t < len(p.topics) && yield(t); t += batchSize {
		}
	}
}

// follows reports whether a host follows a topic.
func (p *plan) follows(topic, host int) bool {
	_, ok := slices.BinarySearch(p.topics[topic].followers, host)
	return ok
}

// item returns the payload of a publication: its number, and random bytes up to a size.
func (p *plan) item(publication, size int, rng *rand.Rand) []byte {
	b := make([]byte, max(size, itemNumber))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	binary.BigEndian.PutUint32(b, uint32(publication))
	return b
}

// itemNumber is the number of bytes of a publication's number.
const itemNumber = 4
