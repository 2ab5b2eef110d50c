package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"

	"tidings/internal/locale"
)

// States of an import.
const (
	importOffered     = "offered"     // a person is to choose from the bookmarks of the list
	importWaiting     = "waiting"     // for the end of another import
	importInspecting  = "inspecting"  // looks at the addresses
	importSubscribing = "subscribing" // makes the subscriptions
	importDone        = "done"
	importStopped     = "stopped" // by a person, by the end of the program that asked for it, or by the end of the node
)

// maxImports bounds the imports in memory: those that run or wait, and the last that have ended. Each may be as large
// as its list. Beyond it the oldest that has ended is forgotten; if none has, a further import is refused.
const maxImports = 4

// imports holds the imports that run and the last ones that have ended. One runs at a time, in the order in which they
// were begun, so that two lists with the same feed do not both count it as new. Nothing of it outlives the node: what an
// import has subscribed to stays, and the list can be imported again for the rest.
type imports struct {
	mu      sync.Mutex
	runs    []*importRun // the oldest first
	ended   bool         // no more are begun
	running sync.WaitGroup
}

// An importRun is the import of a list. Its methods may be called at the same time.
type importRun struct {
	id       string
	began    time.Time
	finished chan struct{} // closed when the import has ended
	cancel   context.CancelFunc

	mu      sync.Mutex
	state   string
	done    int // of the steps of the state
	all     int // steps of the state
	result  ImportResult
	failed  []importFailed
	offered []*importEntry // bookmarks from which a person can choose
	err     error          // why the import has ended at once
	next    chan struct{}  // closed at the next change
}

// An importFailed is a failure of an import, with what is needed to try again.
type importFailed struct {
	Place int // in the list; 0 for a line that cannot be read
	ImportFailure
	Why   *reason
	entry *importEntry // nil if it cannot be tried again
}

// A reason is an error as a page shows it.
type reason struct {
	Text     locale.Text
	Reported bool // by a web server or by the network, in English
}

// reasonOf returns an error as a page shows it.
func reasonOf(err error) *reason {
	if refusal, ok := refusalOf(err); ok && refusal[0] != "%v" { // which passes another error on
		return &reason{Text: refusal}
	}
	return &reason{locale.Verbatim(oneLine(err.Error())), true}
}

// CanRetry reports whether another attempt may succeed.
func (f importFailed) CanRetry() bool { return f.entry != nil }

var (
	errManyImports   = refuse(http.StatusServiceUnavailable, "%d imports are running or waiting: wait until one of them has ended", maxImports)
	errImportStopped = refuse(http.StatusServiceUnavailable, "the import was stopped: what it had subscribed to stays, and you can import the list again for the rest")
	errUnknownImport = refuse(http.StatusNotFound, "this import is not known any more, because the node was started again or because of later imports: what it had subscribed to stays, and you can import the list again for the rest")
)

// add adds an import. i.mu is held.
func (i *imports) add(run *importRun) error {
	if i.ended {
		return errStopping
	}
	if len(i.runs) == maxImports {
		oldest := slices.IndexFunc(i.runs, (*importRun).hasEnded)
		if oldest < 0 {
			return errManyImports
		}
		i.runs = slices.Delete(i.runs, oldest, oldest+1)
	}
	i.runs = append(i.runs, run)
	return nil
}

// offer keeps bookmarks from which a person can choose.
func (i *imports) offer(entries []*importEntry, began time.Time) (*importRun, error) {
	run := &importRun{id: rand.Text(), began: began, state: importOffered, finished: make(chan struct{}), offered: entries}
	close(run.finished)
	i.mu.Lock()
	defer i.mu.Unlock()
	return run, i.add(run)
}

// begin begins an import, whose work is done when its turn comes. The work ends early with its context, which ends with
// ctx or when the import is stopped.
func (i *imports) begin(ctx context.Context, began time.Time, work func(context.Context, *importRun) error) (*importRun, error) {
	ctx, cancel := context.WithCancel(ctx)
	run := &importRun{id: rand.Text(), began: began, state: importWaiting, finished: make(chan struct{}), cancel: cancel}
	i.mu.Lock()
	defer i.mu.Unlock()
	before := slices.DeleteFunc(slices.Clone(i.runs), (*importRun).hasEnded)
	if err := i.add(run); err != nil {
		cancel()
		return nil, err
	}
	i.running.Go(func() {
		defer cancel()
		for _, other := range before {
			select {
			case <-other.finished: // soon, if the node ends
			case <-ctx.Done(): // it gives up its place, and its work finds that it has been stopped
			}
		}
		run.finish(ctx, work(ctx, run))
	})
	return run, nil
}

// find returns an import by its id.
func (i *imports) find(id string) (*importRun, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, run := range i.runs {
		if run.id == id {
			return run, nil
		}
	}
	return nil, errUnknownImport
}

// latest returns all imports, the last one first.
func (i *imports) latest() []*importRun {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := slices.Clone(i.runs)
	slices.Reverse(all)
	return all
}

// stop stops all imports, and those that are begun later.
func (i *imports) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	for _, run := range i.runs {
		run.stop()
	}
}

// close stops all imports and waits for their ends.
func (i *imports) close() {
	i.stop()
	i.running.Wait()
}

func (r *importRun) hasEnded() bool {
	select {
	case <-r.finished:
		return true
	default:
		return false
	}
}

// stop ends the import after the steps that are under way.
func (r *importRun) stop() {
	if r.cancel != nil {
		r.cancel()
	}
}

// changed returns a channel that is closed at the next change.
func (r *importRun) changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}

// tell wakes those that wait for a change. r.mu is held.
func (r *importRun) tell() {
	if r.next != nil {
		close(r.next)
		r.next = nil
	}
}

// enter begins a state of so many steps.
func (r *importRun) enter(state string, steps int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.done, r.all = state, 0, steps
	r.tell()
}

// step counts a step that has no other result.
func (r *importRun) step() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.tell()
}

// subscribed counts a subscription.
func (r *importRun) subscribed(already, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Subscribed++
	if already {
		r.result.Already++
	}
	if found {
		r.result.Found++
	}
}

// fail notes a failure.
func (r *importRun) fail(f importFailed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, _ := slices.BinarySearchFunc(r.failed, f.Place, func(o importFailed, place int) int { return cmp.Compare(o.Place, place+1) })
	r.failed = slices.Insert(r.failed, at, f)
}

// finish ends the import.
func (r *importRun) finish(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		r.state = importStopped
	} else {
		r.state, r.err = importDone, err
	}
	r.tell()
	close(r.finished)
}

// wait waits for the end of the import, and returns its result.
func (r *importRun) wait() (ImportResult, error) {
	<-r.finished
	r.mu.Lock()
	defer r.mu.Unlock()
	result := r.result
	result.Failed = []ImportFailure{}
	for _, f := range r.failed {
		result.Failed = append(result.Failed, f.ImportFailure)
	}
	if r.state == importStopped {
		return result, errImportStopped
	}
	return result, r.err
}

// take removes a failure to try again; merge adds the outcome.
func (r *importRun) take(place int) (*importEntry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.failed, func(f importFailed) bool { return f.CanRetry() && f.Place == place })
	if at < 0 {
		return nil, false
	}
	entry := r.failed[at].entry
	r.failed = slices.Delete(r.failed, at, at+1)
	return entry, true
}

// takeAll removes all failures that can be tried again.
func (r *importRun) takeAll() (entries []*importEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = slices.DeleteFunc(r.failed, func(f importFailed) bool {
		if f.entry != nil {
			entries = append(entries, f.entry)
		}
		return f.entry != nil
	})
	return entries
}

// merge adds the outcome of another attempt.
func (r *importRun) merge(o *importRun) {
	r.mu.Lock()
	r.result.Subscribed += o.result.Subscribed
	r.result.Already += o.result.Already
	r.result.Found += o.result.Found
	r.mu.Unlock()
	for _, f := range o.failed {
		r.fail(f)
	}
}

// takeOffered removes bookmarks that a person has chosen.
func (r *importRun) takeOffered(places map[int]bool) (chosen []*importEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered = slices.DeleteFunc(r.offered, func(e *importEntry) bool {
		if places[e.place] {
			chosen = append(chosen, e)
		}
		return places[e.place]
	})
	return chosen
}

// offer adds bookmarks from which a person can choose.
func (r *importRun) offer(entries []*importEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered = append(r.offered, entries...)
	slices.SortFunc(r.offered, func(a, b *importEntry) int { return cmp.Compare(a.place, b.place) })
}
