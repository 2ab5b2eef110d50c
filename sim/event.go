package sim

// kind says what an event does to its host.
type kind uint8

const (
	alarm     kind = iota // the node may want to be run
	frame                 // item: slab of frames
	fetched               // item: slab of fetches
	computed              // item: slab of done functions
	durable               // the oldest batch of the host's disk
	down                  // item: the host whose link broke
	found                 // item: the host that was found
	reachable             // the node was dialled back
	rouse                 // the host goes on with what waited
	asked                 // item: slab of scripts, what the node's owner asks of it
	turn                  // item: slab of scripts; no host
	gossip                // item: slab of whispers
)

var kindNames = [...]string{
	"alarm", "frame", "answer", "computation", "commit",
	"peer down", "peer found", "reachable", "rousing", "question", "turn", "gossip",
}

func (k kind) String() string { return kindNames[k] }

// An event happens to one host at one time. It holds no pointer, so that a
// calendar of millions costs the garbage collector nothing; what it carries lies
// in a slab.
type event struct {
	host int32
	life uint32 // of the host; the event is void for any other
	item uint32
	kind kind
}
