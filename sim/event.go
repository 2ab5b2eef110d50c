package sim

// An eventKind says what an event does to its host. The comments say what the event's item is.
type eventKind uint8

const (
	eventAlarm      eventKind = iota // the node may be due to run
	eventFrame                       // item: index of a frame
	eventFetched                     // item: index of a fetch
	eventComputed                    // item: index of a callback
	eventDurable                     // the oldest pending batch of the host's disk is due
	eventPeerDown                    // item: index of the host whose link broke
	eventPeerFound                   // item: index of the host that was found
	eventReachable                   // the node was dialled back
	eventResume                      // the host handles the events that waited
	eventCall                        // item: index of a script's function, called in the node's turn
	eventScript                      // item: index of a script's function; no host
	eventTopicFrame                  // item: index of a topic frame
)

var eventNames = [...]string{
	"alarm", "frame", "answer", "computation", "commit",
	"peer down", "peer found", "reachable", "resume", "call", "script", "topic frame",
}

func (k eventKind) String() string { return eventNames[k] }

// An event happens to one host at one time. It holds no pointers, so that the garbage collector
// need not scan a calendar of millions of events; payloads lie in slabs.
type event struct {
	host int32
	life uint32 // of the host; the event is void in any other life
	item uint32
	kind eventKind
}
