package tree

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"tidings/overlay"
)

// A topic is followed by this part of the hosts: some number between the two, at random.
const minShare, maxShare = 0.05, 0.20

// least is how many follow a topic at least: one publishes, another one hears.
const minFollowers = 2

// networkName is what ids and keys are made with.
const networkName = "lab"

// A plan is what both systems are to do. It follows from the seed alone.
type plan struct {
	hosts         int
	topics        []topic
	publications  []publication
	subscriptions int // pairs of a host and a topic
	expected      int // pairs of a publication and a follower who is not its publisher
}

type topic struct {
	key       overlay.ID
	followers []int
}

type publication struct{ topic, publisher int }

// newPlan lets each of so many topics be followed by hosts at random, and spreads
// publications over the topics as evenly as they go.
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

// TopicsFor is how many topics give each host about so many subscriptions.
func TopicsFor(subscriptions int) int {
	return int(float64(subscriptions)/((minShare+maxShare)/2) + 0.5)
}

// portion is how many topics all hosts subscribe to at a time, which is some twelve of each: all of
// two hundred nodes on one machine, which make connections for it besides, are too much for it.
const batchSize = 100

// portions are the first topics of all portions.
func (p *plan) batches() iter.Seq[int] {
	return func(yield func(int) bool) {
		for t := 0; t < len(p.topics) && yield(t); t += batchSize {
		}
	}
}

// follower says whether a host follows a topic.
func (p *plan) follows(topic, host int) bool {
	_, ok := slices.BinarySearch(p.topics[topic].followers, host)
	return ok
}

// item is the payload of a publication: its number, and random bytes up to a size.
func (p *plan) item(publication, size int, rng *rand.Rand) []byte {
	b := make([]byte, max(size, itemNumber))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	binary.BigEndian.PutUint32(b, uint32(publication))
	return b
}

// itemNumber is how many bytes the number of a publication takes.
const itemNumber = 4
