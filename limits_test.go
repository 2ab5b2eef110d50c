package tidings_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the generated tables of docs/design")

// A limit is a row of docs/design/limits.md. Its value is read from the source, so that the table cannot
// disagree with the program.
type limit struct {
	pkg   string
	names string // constants, separated by spaces; ":B" after a name means that its unit is bytes
	what  string // what the constants bound, in their order
	then  string // what happens at the limit
}

// limits are the rows of the table, a section for each layer.
var limits = []struct {
	title string
	rows  []limit
}{
	{"Frames and topics", []limit{
		{"internal/env", "MaxFrame:B", "one message between two nodes", "refused before memory is allocated"},
		{"internal/env", "MaxTopicFrame:B", "one message on a GossipSub topic", "a larger entry is only listed in a digest, and filters ask for it"},
	}},
	{"Connections", []limit{
		{"overlay/libp2p", "maxConns", "connections of one host", "new connections are refused; from 160 connections on, those without an outgoing link are trimmed"},
		{"overlay/libp2p", "newcomerSlots blockShare", "connections kept free for newcomers; connections that one address block (IPv4 /24, IPv6 /48) keeps when slots are scarce", "inbound connections are closed: first those that are of no use to the node after 15 s, then the youngest of blocks above their share"},
		{"overlay/libp2p", "maxHandshakes blockHandshakes", "handshakes in progress, in all and from one address block", "refused"},
		{"overlay/libp2p", "maxPendingHandshakes", "handshakes remembered to count them by block", "the memory is cleared"},
		{"overlay/libp2p", "connIdle connUnused", "time a connection may stay without a link; the same if it never had one", "closed; this does not count as a death"},
		{"overlay/libp2p", "maxQueue maxQueueBytes:B", "frames waiting for one link", "the oldest frame is dropped and counted"},
		{"overlay/libp2p", "maxUrgent maxUrgentBytes:B", "urgent frames waiting ahead of them", "the oldest urgent frame is dropped and counted"},
		{"overlay/libp2p", "maxViolations", "malformed frames from one peer within 10 minutes", "its links are closed and the peer is refused for an hour"},
		{"overlay/libp2p", "addressCheckInterval", "time between two checks of the machine's addresses", "a changed address is noticed that much later"},
		{"overlay/libp2p", "maxTopics topicQueue validationTime", "topics of one host; frames of one topic waiting; time the node has to validate a frame", "the topic is not joined; the frame is dropped and counted"},
	}},
	{"Overlay", []limit{
		{"overlay", "maxRoutes maxHeld", "messages remembered while they pass; messages waiting for a next hop", "dropped and counted; the origin of the message retries"},
		{"overlay", "maxInFlight", "own messages that no next hop has acknowledged", "further messages wait until their deadline"},
		{"overlay", "maxNearer lookUpFrom alarmTime", "members expected nearer to a key than the one that acknowledges a message as its root; tries, or messages with one payload; time after a false receipt", "beyond these a lookup finds the root; for this long all receipts are checked so"},
		{"overlay", "maxLookups maxLookupAsked", "concurrent lookups; queries of one lookup", "further lookups wait; a lookup that ran out of queries returns what it found, marked implausible if it is"},
		{"overlay", "maxBootstraps entrySample", "bootstrap nodes that a member keeps; those that one check asks, and as many remembered members and present ones", "further ones are not kept; each check makes another choice"},
		{"overlay", "minRemembered rememberedFor", "remembered members that must all be missing to make the network doubtful; time since the node saw one of them", "nothing is concluded"},
		{"overlay", "maxFalseReports", "false reports of deaths from one member within an hour", "its reports are ignored for an hour"},
		{"overlay", "maxSyncBackoff", "leaf comparisons with a member that never agrees", "compared once a minute from then on"},
		{"overlay", "maxClients hostsInterval", "clients of one member; time between two searches of a client for a second host", "the client asks another member; it has one host for longer"},
		{"overlay", "slots slotRetry", "members of one block of addresses, in a network of address ids; the time after which a node asks again for a taken place", "further nodes of the block are clients"},
		{"overlay", "maxProofs proofTime maxProving", "members whose addresses are known to be proven; how long a proof counts; members that are dialled at once", "they prove their addresses again; messages are dropped, and will be repeated"},
		{"overlay/libp2p", "maxProofs", "peers that are dialled at once to prove their addresses", "further ones wait"},
		{"overlay", "MaxRevoked maxRenewers", "nodes on an authority's list of revocations; nodes that renew its certificates", "`tidings network revoke` refuses until certificates expire"},
		{"overlay", "maxCertificate:B maxRevocations:B", "a certificate; a list of revocations", "refused before its signature is checked"},
		{"internal/authority", "Lifetime maxName:B", "the validity of a certificate; the name of a member", "renewed after two thirds; refused"},
		{"internal/signature", "tabledKeys countedKeys", "keys of which multiples are kept, 15 KB each; keys whose signatures are counted", "the key that has not been used for the longest time is dropped"},
		{"internal/wire", "MaxAuthorities", "authorities of a network", "refused"},
	}},
	{"Trees", []limit{
		{"overlay/scribe", "window", "unacknowledged messages down one link", "further messages queue"},
		{"overlay/scribe", "maxQueue maxQueued:B", "messages queued for one link", "only the last message of each group stays queued; the gap makes the child pull; counted"},
		{"overlay/scribe", "heartbeatShare maxHeartbeatPeriod", "heartbeat period per link of an idle node; longest period", "a node with more than 200 links sends more than two messages a second"},
		{"overlay/scribe", "maxBatch batchBytes:B", "group messages in one frame", "the rest goes into another frame"},
		{"overlay/scribe", "offerPause", "time between two offers of a root to take over children of a child that has most clients below it", "the tree stays uneven for that long"},
		{"overlay/scribe", "maxBlocked blockTime", "parents on the blocklist, each for one group; how long", "no further parent is left"},
		{"overlay/scribe", "maxAvoid", "blocked parents named in a Join", "the others are not named"},
	}},
	{"Polling groups (wedges)", []limit{
		{"overlay/wedge", "maxMemberships", "keys in whose trees one node takes part", "further entries are refused, and the parent asks another node"},
		{"overlay/wedge", "maxLed", "keys of one node, those that it leads included", "a leader of more is told so: nobody polls the others"},
		{"overlay/wedge", "outsideShare", "one in so many of these memberships may come from a single parent outside the leaf", "refused"},
		{"overlay/wedge", "MaxRanks ranksPerMember", "ranks one member serves; ranks per member of the network", "excess ranks are thinned out evenly; the order is refused"},
		{"overlay/wedge", "maxStandIns", "declined ranks of one wedge that get a stand-in", "nobody serves further ones; counted"},
		{"overlay/wedge", "MaxPayload:B MaxBroadcast:B", "payload (channel parameters) of an order; one broadcast to a wedge", "refused"},
		{"overlay/wedge", "maxQueued:B maxRelayed:B", "broadcasts queued on one link; broadcasts a relay keeps for new children", "dropped and counted; not kept"},
	}},
	{"Sums over all members", []limit{
		{"overlay/sums", "MaxValue:B maxKeptBytes:B", "one value; all values kept", "refused; the last accepted value stays"},
		{"overlay/sums", "maxParts", "parts of the network in one sum", "further members of the leaf do not count"},
		{"overlay/sums", "maxRequests", "answers to one peer per minute", "dropped and counted; the peer asks again"},
		{"overlay/sums", "tolerance", "factor between a part and the median of its row", "the median is used instead, and another contact is asked"},
	}},
	{"Quiet subscriptions", []limit{
		{"internal/node", "MaxQuiet", "quiet subscriptions of one node", "refused with a reason"},
		{"internal/daemon", "quietAnswer", "time for which a new quiet subscription may get nothing", "it is shown as cut off"},
		{"internal/node", "minRenewal", "time (and at least a polling interval) for which nobody vouches for a feed that is followed quietly", "another circuit, through other members"},
		{"overlay/relay", "maxCircuits maxCircuitsFromPeer", "circuits of one member, as middle and exit; those that one peer has opened", "declined and counted; the reader tries other members"},
		{"overlay/relay", "circuitRate:B circuitBurst:B memberRate:B memberBurst:B", "bytes a second of one circuit, and at once; of all circuits of a member", "frames are dropped and counted, and the layers of the reader ask again"},
		{"overlay/relay", "maxSealed:B", "a frame in a circuit, padded", "a larger one is dropped and counted"},
		{"overlay/relay", "circuitIdle openTimeout tunnelSilence maxOpenPause", "silence after which a circuit is forgotten; time to open one; silence after which a reader opens another; longest pause between two attempts", "another circuit, through other members; what is missing is pulled"},
		{"overlay/relay", "peerRate peerBurst", "circuits a second that one peer may open, and peers unknown to the member that it may be made to dial for them; at once", "declined, or dropped, and counted; the reader tries others"},
		{"overlay/relay", "replayWindow", "frames that may overtake one that still counts", "a frame that comes later, or again, is dropped and counted"},
		{"overlay/relay", "maxGuests maxGuestsFromExit guestIdle maxVoucherAge", "guests of other members that one node answers; those of one exit; silence after which one is forgotten; age of a guest's voucher", "frames of further guests are dropped and counted, and they ask others; an older voucher is refused"},
	}},
	{"Logs", []limit{
		{"overlay/owner", "MaxBody:B maxInline:B", "body of one entry; body sent together with the entry", "change reports are split; larger bodies are pulled in pieces"},
		{"overlay/owner", "keepAge KeepItems", "log that is kept: this age, or the entries of this many items, whichever is more", "older entries are dropped by all owners alike, after items that the document still shows were appended again"},
		{"overlay/owner", "maxKeptItems maxKeptBytes:B", "items and bytes of one log", "the oldest entries are dropped, whatever their age"},
		{"overlay/owner", "maxPulled:B maxPulling:B", "one pull; all pulls in progress", "the pull ends and starts again later"},
		{"overlay/owner", "maxPullTime minPullRate:B maxSlowPull maxPullPatience", "a pull; bytes a second for which it is given more time; then; time for an answer from a peer with a slow line", "the pull ends and starts again later; large bodies that are complete are not fetched again"},
		{"overlay/owner", "maxCandidacies", "candidacies for an epoch in progress", "others wait"},
		{"overlay/owner", "maxHandOver", "time a leaving node has to hand over what it leads", "the other owners take over, as after a death"},
		{"overlay/owner", "maxClientQueries maxQueryWaiters", "questions for a key's owners that clients wait for; callers that wait for one answer", "dropped, and the client asks another host; told at once that nobody answers"},
		{"overlay/owner", "maxOrphaned", "orphaned entries of one log, which readers were shown and its present branch lacks, until they are read", "further ones are dropped"},
		{"overlay/owner", "leftOutTime maxRefusals", "time for which an owner that did not do its part is left out of the owners of a key; refusals in a row of what a quorum signs", "it may be an owner again; it is left out. At most a minority of the owners is"},
		{"overlay/owner", "candidacyTime turnPause", "turn of a candidate at an owner; pause before its next turn while others ask", "others are promised; the candidate repeats its request"},
		{"overlay/owner", "maxDateAhead maxStep", "how far the date of an entry may be ahead of most clocks; how much later than the entry before it an entry counts when old ones are dropped", "not stored, and the sequencer is replaced; old entries are dropped one entry later"},
		{"overlay/owner", "maxQueue", "bodies waiting to be appended to one log", "refused; the next poll finds the items again"},
	}},
	{"Feeds", []limit{
		{"internal/feed", "MaxDocument:B MaxItems MaxItem:B", "a document; its items; one item", "the items in its first part; the first items; an item loses its largest parts"},
		{"internal/feed", "maxDepth", "nesting of elements", "a clear error"},
		{"internal/feed", "maxGrowth:B maxDocumentGrowth:B", "how much longer an item and a document become by absolute addresses, beyond their own size", "further addresses stay as they are written"},
		{"internal/feed", "maxOPML:B maxOutlines maxUnread", "an OPML document or another list; its outlines; its lines that cannot be read", "refused"},
		{"difference", "MaxEnvelope:B", "an item with its publisher's envelope, in one frame", "the envelope has the hash of the item, which follows it"},
		{"feedtree", "maxWanted maxSources wantedTime maxContentPart:B", "large items that a sequencer fetches at once; nodes from which it fetches those of one feed; time after which one loses its place to another; bytes of one part", "the publisher's node is told to try again"},
		{"difference", "maxAlone", "titles and other heads of a feed that are told in a row without an item", "the next one waits for an item"},
		{"difference", "MaxFormer MaxWitnesses", "former keys in a pin; owners' statements in a pin", "the oldest keys are forgotten; further statements are left out"},
		{"difference/page", "maxReturns calmChecks calmTime", "places of lines of one page that came or went lately; checks, and time, after which a line is forgotten", "further lines that come and go are reported each time; the next time counts as the first again"},
		{"internal/markup", "MaxAttributes", "attributes of one tag", "further ones are not read"},
		{"difference/page", "figureChanges", "checks in a row at which a price or a stock changes", "it is treated as a counter"},
		{"internal/selection", "MaxSelector:B maxSteps maxTests", "a selector of what counts on a page; its compound selectors; its classes, attributes and the like", "refused with a reason"},
		{"difference/page", "maxElements maxSiblings maxFound", "elements of a page on which some are selected; elements within one; elements found", "the poll has failed, and the channel's state says so"},
		{"difference/page", "maxCompared:B maxContained:B", "attributes of such a page; its text, counted once for each element around it", "the poll has failed, and the channel's state says so"},
		{"difference/page", "maxGone:B maxSought:B samePage", "lines of earlier texts of a page that an owner remembers; text in which it searches the removed lines of a change, once for each; divided by which, lines of a new version that the owner's text must have", "the owner does not vouch for the change"},
		{"difference/page", "maxNested maxAttributes maxValue:B", "nesting of elements that a selector sees; attributes of an element; one of them", "deeper elements are beside each other; further attributes match nothing; the rest matches nothing"},
		{"feedtree", "DefaultMaxSubscriptions", "subscriptions of one node; `--max-subscriptions` sets it", "refused with a reason"},
		{"feedtree", "digestsAtOnce", "digests per interval for all parents together", "with more parents, each gets digests less often"},
		{"feedtree", "auditInterval", "time without certain news of a feed, or a digest interval if no parent keeps its log", "the node compares the feed with an owner"},
		{"feedtree", "missedDigests nodeSilence", "digest intervals without news of a feed (and at least a polling interval); time without a frame from anybody", "the node polls the feed itself; the node reports that it is cut off"},
		{"feedtree", "handOversAtOnce handOverTries", "feeds handed over in one digest interval after an outage; attempts for each", "the rest follows in the next interval; after the last attempt the document at the origin decides"},
		{"feedtree", "maxMissed probationTime", "entries in a row that a parent failed to deliver; time it has for one", "the node leaves that parent in this tree, and in all trees after three feeds within an hour"},
		{"feedtree", "maxOwnerLookups maxOwnerAddrs", "feeds whose owners one audit looks up; owners' addresses remembered", "the rest follows in the next audit; the addresses are forgotten and found again"},
		{"feedtree", "maxPushes maxAllPushes pushTimeout", "publications in progress for one feed, for all feeds; time for each", "not accepted; the publisher's record keeps them and they are sent again"},
		{"internal/publisher", "minFoldedLog:B maxEarlier maxEarlierAccepted maxEarlierBytes:B", "log of a publisher's record, unless the record is larger; envelopes kept before the last one; those before the last accepted one, and their bytes", "the record is written anew; the oldest is dropped, and cannot be sent again"},
		{"feedtree", "decodeStep:B", "bytes that are decoded of a log at a time, beyond one entry (`difference.MaxDelta`)", "the rest follows in further steps"},
		{"feedtree", "decodingsAtOnce", "such steps that are with the worker at a time", "later ones wait"},
		{"feedtree", "maxRecentEntries maxRecentBytes:B recentTime", "entries whose content is kept after it was read or made, of all feeds; its bytes; the time for which it is kept", "it is decoded again"},
		{"feedtree", "maxDocumentBytes:B maxExtraBytes:B", "bytes of the items of a feed that readers see; of those that its log lacks", "the oldest are left out, and `tidings status` says so; they are not shown until the log has them"},
		{"difference", "MaxDelta:B", "an entry of a log, or a change report, when it is decompressed", "refused while it is decompressed: the entry cannot be read, and people are told so"},
		{"feedtree", "maxReceipts maxAcceptedBytes:B maxAllAcceptedBytes:B maxRefusals", "publisher's numbers remembered for one feed; publications of one feed that wait for a quorum; those of all feeds that a node leads, of which one feed may have as much as it leaves free; refusals remembered", "an older number counts as old, not as a conflict; the publisher's node is told to try again; the same; the oldest refusal is not shown"},
		{"difference", "MaxSeen MaxSightings MaxSighting:B", "versions in a sighting; sightings in a certificate; one sighting", "the rest makes further sightings and certificates; refused before they are parsed"},
		{"feedtree", "maxSightRequests maxHeldSightings maxOwnerSets", "requests to owners about an item; sightings of one owner that wait for others; sets of owners that a subscription remembers", "the item stays `single`; the oldest is dropped; certificates of the oldest owners do not count after a restart"},
		{"feedtree", "maxWatched watchIntervals unaskedIntervals pushedPatience", "entries of a log that an owner reads at a time to look for their items; polling intervals for which it looks; after which it looks unasked; the same in a feed whose news a hub pushes", "earlier items are not contested; the item stays `single`"},
		{"overlay/owner", "maxBar", "longest time for which an owner may not lead a key", "it may lead again"},
		{"feedtree", "barTime", "time for which a sequencer that left a contest out of the log may not lead the feed", "it may lead again; at most a minority of the owners is barred at a time"},
		{"feedtree", "maxTold", "times that an owner tells the sequencer of a contest that the log lacks", "it bars the sequencer"},
		{"feedtree", "auditPatience maxAuditLooks maxDiffers", "polling intervals after which a difference between a log and its origin is a problem; looks at differences that become none; differences remembered for a feed", "the differences are forgotten"},
		{"feedtree", "quietAudits maxRareIntervals", "times `AuditOneIn` polling intervals of the feed in which a follower looks at the origin without a cause; the largest of those intervals, in those of the network", "the look is made; a longer one counts as this"},
		{"feedtree", "auditSpread auditHearsay problemTime", "polling intervals over which followers that hear of a problem look; in which one looks at most once because of that; time for which a problem is shown that cannot be confirmed any more", "further reports are ignored; the problem is no longer shown"},
		{"feedtree", "maxContested maxDisorder", "contested items from which on an origin counts as one that shows each node other items; one in so many items of a document may be out of the order of time", "items that the log lacks, or the origin, are no differences"},
		{"feedtree", "maxStatement:B maxStatements maxStatementAhead", "a publisher's statement that nothing is new; those in one message; how far a publisher's clock may be ahead", "the statement is not passed on, and readers see the publisher as silent"},
		{"corona", "distrustTime maxDistrusted maxReported", "time for which reports of a poller whose item was not at the origin are not believed; such pollers of a channel; items whose pollers are remembered", "believed again; the one whose time ends first is believed again; the oldest item is forgotten, and its poller not blamed"},
		{"feedtree", "maxLookDoublings", "doublings of the pause between fetches that only confirm an item and bring nothing", "one such fetch in 128 polling intervals from then on"},
		{"feedtree", "maxWitnessRequests keyChangeTries", "origins fetched for sequencers at a time; requests for witnesses of one change of a key", "not answered; the next document that names the key starts again"},
		{"feedtree", "maxKeyCheckDoublings enoughObjectors maxObjectors", "doublings of the pause between two checks of a doubted key; objections after which a follower adds none; objections counted", "checks wait; further objections are not counted"},
	}},
	{"Polling", []limit{
		{"corona", "minPublicInterval maxPublicInterval", "time between two polls of a public origin by one node", "the interval is moved into this range"},
		{"corona", "budgetFloor budgetCeil minChannelGap", "all nodes together may always ask a domain once in this time; never more often than once in this; one channel never more often than once in this, unless its readers alone would", "fewer pollers, then longer intervals, up to a week"},
		{"corona", "maxSiteFeeds", "channels of a domain up to which the ping of a site fetches them all", "the ping must name the feed"},
		{"corona", "pushedInterval pushedPollGap pushedLookGap", "time between two polls of a feed whose hub is trusted; the same if the hub has delivered in between; between two requests to its owners to confirm what was pushed", "polled by one node; polled even so; confirmed together"},
		{"corona", "pushOrderPause pushPatience pushOrderLife", "time between two orders to subscribe at a hub; time without an answer after which another node is chosen; time without an order after which a node unsubscribes", "ordered again; the spare takes over; the next order subscribes again"},
		{"corona", "pushGrace maxLatePushes HintGap", "how much later than a poll a hub may deliver an item; late notifications in a row; time between a fetch and one that a hint causes", "the hub is no longer relied on; the same; the hint waits"},
		{"proxy", "maxPing:B maxPingAddresses", "an announcement of a site; addresses in it", "refused (413); further ones are ignored"},
		{"proxy", "maxPings maxPingsPerBlock pingWindow", "announcements of sites that a node takes in a time, in all; from one block of addresses (IPv4 /24, IPv6 /48); the time", "refused (429)"},
		{"corona/websub", "maxSubscriptions MaxNotification:B MaxQuery:B", "subscriptions of one node at hubs; one notification; one question of a hub", "another node is not chosen, and the feed is polled; refused (413); refused"},
		{"corona/websub", "minLease maxLease wantedLease", "the length of a lease that a hub may give; the one that is asked for", "moved into this range"},
		{"corona/websub", "firstRetry lastRetry busyRetry renewGap deniedRetry", "time until a hub that does not confirm is asked again, doubled each time; the longest; the same if the node had no room for the request; the least if it has failed; if it has refused", "the feed is polled meanwhile"},
		{"difference/page", "maxHubs", "hubs of one document", "further ones are ignored"},
		{"corona", "goneIntervals goneRetry", "polling intervals until the second poll of a feed that is gone, doubled each time; longest time between two", "one node asks this rarely until the feed is back"},
		{"corona", "minTurnGap maxTurnGap quotaGap", "pause between two polls of a domain that asks for fewer requests and does not say for how long; longest pause; first pause if it says for how long", "its feeds wait for each other"},
		{"corona", "enoughFailing", "nodes whose polls fail, while none succeeds, until a channel counts as unreadable for everybody", "no further node is asked to poll it; the last one goes on"},
		{"corona", "minExclusion maxExclusions", "time for which a node that was turned away takes no ranks of a channel, doubled each time up to a day; channels of which it remembers this", "then it takes ranks again; any of them is forgotten"},
		{"corona", "moveTrust moveDoubt maxSeenMoves", "time for which a permanent redirect must lead to the same feed; failures at the new address; channels whose redirect a node remembers", "then nodes that were redirected poll the new address; then each second poll asks the old one; all are forgotten"},
		{"corona", "maxPendingReports keepReportFor", "documents with news waiting for the sequencer; how long", "the oldest is dropped; the next poll finds the news again"},
		{"corona", "maxInline:B", "head and items in a change report, compressed", "the report goes without them, and the sequencer fetches both"},
		{"corona", "maxItemFetches maxAllItemFetches", "change reports of one channel waiting for their items; of all channels", "further reports are dropped and counted, and come again"},
		{"corona", "maxItemBytes:B maxUnpacked:B", "one answer with items, compressed; before compression", "the first items are sent, the rest on the next request"},
		{"corona", "maxWaiters maxFailing", "pollers waiting for the log to hold their report; failing pollers remembered", "others report again; others are not remembered"},
		{"corona", "maxChannelsPerMember maxSubscribersPerMember", "channels led by one member; subscribers of a channel behind one member", "refused"},
		{"corona", "maxAccounts maxAllAccounts", "budget accounts (channels) of one domain; of all domains of a steward", "no grant: one poller per channel, in turns"},
		{"corona", "unauditedReaders auditOneIn auditWait", "readers of a feed that always count in its domain's budget; one in so many claims of more that is compared with the feed's second tree although it is not higher than before; time for which a grant waits for the answer", "further readers count only as far as that tree has three quarters of them"},
		{"corona", "maxSilent maxAudits maxEarlyAnswers", "comparisons in a row without an answer after which a claim counts in full; comparisons of one steward without an answer yet; answers before it is known whose counts", "it is compared again with the next claim; that claim is compared later, and a first one counts four readers until then; dropped and counted"},
		{"corona", "maxPendingGrants maxGrant:B", "grants of a domain waiting for signatures; one grant", "made when asked for again"},
		{"honeycomb", "MaxCorrection", "factor by which the target load may exceed the allowed load, or fall short of it", "no further correction"},
		{"honeycomb", "MaxSubscribers MinUpdate MaxUpdate", "subscribers of a channel; update interval of a channel", "the value is moved into this range"},
	}},
	{"Keywords", []limit{
		{"cobra/query", "MaxText:B MaxTerms MaxDepth maxCombinations", "a query: text, words, nesting, combinations", "refused with a reason within 10 ms"},
		{"cobra", "DefaultMaxSubscriptions HighestMaxSubscriptions", "searches of a node, by default; the highest value of `--max-searches`", "refused; the error names the setting"},
		{"cobra", "DefaultMaxBytes:B HighestMaxBytes:B", "articles of searches on the disk, by default; the highest value of `--search-disk`", "from nine tenths on titles and links only, then nothing"},
		{"proxy", "maxWatchPage shownWatches", "searches in one answer of the API; on one page", "the list goes on with the next one"},
		{"internal/daemon", "maxWatchesRead", "searches that one request for a filtered list reads", "the list goes on with the next request"},
		{"internal/daemon", "maxToldSearches maxToldLookups toldInterval", "searches up to which the journal records the news of all; named searches that one look finds; time between two looks", "only named searches are told; found by the next look"},
		{"cobra", "maxRecent", "articles remembered to drop duplicates", "the oldest could come twice"},
		{"internal/daemon", "maxWaitingBytes:B maxWaitingArticles", "articles waiting to be matched", "missed; asked for again when there is room; reported by `doctor`"},
		{"internal/daemon", "maxMissed", "missed articles remembered", "further ones are lost, counted and reported"},
		{"cobra/firehose", "maxReports reportDeadline", "entries waiting at a sequencer for the owners of one shard; how long", "the oldest is given up, counted and logged"},
		{"cobra/firehose", "maxEntries maxEntryBytes:B keepTime", "entries of one shard kept by an owner; how long", "older ones are forgotten; beyond the bytes only listed, and filters ask the channel's owners"},
		{"cobra/firehose", "maxTransferBytes:B maxPeerBytes:B", "reports in transit; those of one peer", "started again later"},
		{"cobra/firehose", "maxListeners", "filters known to one owner", "others hear the topic through these"},
		{"cobra/tiers", "defaultBuffer:B defaultItems", "articles that wait for one receiver of a hosting centre, and bytes that it keeps for one sender; articles", "the sender waits, or drops and counts"},
		{"cobra/tiers", "maxArticle:B", "content of an article between two tiers", "cut"},
		{"cobra/tiers", "maxPolls", "polls of a crawler under way", "further feeds wait"},
		{"cobra/tiers", "probeInterval probeAge", "time between two requests with which a crawler only measures a host; age of a measurement until the next one", "the host waits for its turn"},
		{"cobra/tiers", "MaxDiscover", "requests an hour with which a crawler may look for feeds that its list lacks", "`--discover` is refused"},
		{"cobra/tiers", "maxHosts maxOnly maxNamers", "hosts that a crawler remembers because articles link to them; those that one site alone has named; sites remembered for one", "those go that the fewest sites have named, without feeds first; the site's oldest goes; further sites do not count"},
		{"cobra/tiers", "maxFound lookAge heldTime", "feeds of a host that are proposed; time until a host is looked at again if it was named since; time for which one that could not be asked is left alone", "the others are not; it waits"},
		{"cobra/tiers", "pageBytes:B maxPage:B maxOutlinks maxFeedTitle", "bytes of a page that are read; its address; links of an article; a feed's title, in characters", "what comes later is not seen; the host's first page is looked at; further links do not count; cut"},
		{"cobra/tiers", "hostsInterval", "time between two writings of which hosts were named", "a crash loses that much"},
		{"proxy", "maxCandidates", "candidates of one answer", "`limit` is refused"},
		{"cobra/tiers", "maxMoves", "feeds that a crawler is handing to others or has recalled", "further feeds stay until then"},
		{"cobra/tiers", "maxPlaced maxQuery:B", "queries of one reflector at one filter; size of one", "not placed, and counted"},
	}},
	{"Disk and local interface", []limit{
		{"internal/store", "logSize:B", "changes that are in the log and not yet in bbolt's file", "all of them go into the file in one transaction"},
		{"internal/store", "secondSlack:B maxMapped:B", "growth of the second copy of subscriptions beyond twice its size; bytes mapped by reading", "the copy is rewritten; pages are released"},
		{"internal/daemon", "maxInFlight maxInFlightBytes:B", "signed items of one feed on their way, and their bytes", "the next request waits; requests are served in order"},
		{"internal/daemon", "maxPrivateFeeds maxPrivateBytes:B maxAllPrivateBytes:B", "private feeds of a node; items of one; items of all", "subscribing fails; the last items are left out, first those that the document no longer shows, and `doctor` reports it"},
		{"internal/daemon", "maxPrivateHeaders maxPrivateHeaderBytes:B", "headers of a private feed; their size together", "subscribing fails"},
		{"internal/fetch", "maxRedirects maxRobots:B maxHeaders:B", "redirects of one fetch; a robots.txt; response headers", "a classified error with an explanation"},
		{"internal/fetch", "defaultHold maxHold", "time for which a host that asks for fewer requests gets none, if it does not say for how long; longest time", "requests are answered at once with the time that is left"},
		{"internal/fetch", "maxCookies:B", "cookies sent back within one fetch", "none are sent"},
		{"internal/fetch", "maxCodings maxWindow:B", "compressions of one document; memory of one compression", "the others count as none; a classified error with an explanation"},
		{"internal/fetch", "maxLessons maxSilent lessonTTL", "hosts and documents of which the node has learned how to ask them; silent addresses of one host; how long", "forgotten, and learned again with one more request"},
		{"proxy", "maxStoryKeys", "articles whose stories are remembered, so that they are shown once", "those of the search that was not read for longest are forgotten, and may come once more"},
		{"proxy", "maxConns maxPerClient", "connections; connections of one client on another machine", "closed: first the one waiting longest for its headers, then the idle one, then the one busy for longest"},
		{"proxy", "maxStreams", "programs that read events, and pages that are kept up to date, at the same time", "another one is refused with the status 503; a page asks again"},
		{"proxy", "maxMessages messageTime", "messages of forms that pages show; time for which each is shown, and can be undone", "the oldest is forgotten, and what it tells cannot be undone any more"},
		{"proxy", "maxCallback:B maxHubSecret:B", "the callback address of a WebSub subscriber; its secret", "the request is refused"},
		{"internal/daemon", "maxHubSubscribers maxHubAsked hubConfirmations", "WebSub subscribers of this node's hub; their requests that wait to be confirmed; those confirmed at the same time", "further requests are refused"},
		{"internal/daemon", "minHubLease maxHubLease", "shortest and longest lease of a WebSub subscriber", "the hub grants the bound, and says so"},
		{"internal/daemon", "maxHubAnswer:B", "what is read of a callback's answer", "the rest is ignored"},
		{"internal/news", "maxEvents maxBytes:B MaxAge", "events that are kept; their size; their age", "the oldest are dropped, and a program that asks for them is told so"},
		{"internal/news", "maxCommit:B", "events that become durable together; those of the last document may exceed it", "the rest becomes durable afterwards"},
		{"internal/news", "maxEventBytes:B", "one event", "it names the item without its content"},
		{"internal/news", "maxTries MaxDeadLetters", "how long an event is offered to a target that fails; events kept for each target that it did not take", "the event becomes a dead letter; the oldest are dropped"},
		{"internal/news", "FailingTime", "how long a feed fails before that is an event", "shorter outages are none"},
		{"internal/icons", "maxIcon:B maxNamed", "the icon of a site; icons that are tried of those that its page names", "the site counts as one without an icon; further ones are not tried"},
		{"internal/icons", "maxIcons maxWaiting", "icons that are kept; sites that wait to be asked", "the oldest tenth goes; asked when a page shows them again"},
		{"internal/icons", "maxAge retry", "age at which an icon is looked for again; the same at a site without one", "the old one is shown meanwhile"},
		{"internal/notify", "maxAddress:B sendTime maxAnswer:B", "the address of a target; one delivery; what is read of an answer", "refused with a reason; tried again; the rest is not read"},
		{"internal/notify", "serviceBatch servicePause maxText:B", "messages that a service gets as one; time between two; the text of one", "the rest waits; it ends with the number of further ones"},
		{"internal/notify", "mailBatch maxMailHTML:B maxRecipients", "messages of one e-mail; the HTML of one; recipients of a target", "the rest is in the next; the beginning of its text; refused with a reason"},
		{"internal/daemon", "maxTargets maxTargetSources maxTargetsFile:B", "targets of notifications of one node; feeds and searches of one target; the file of targets", "refused with a reason; set aside as damaged"},
		{"internal/daemon", "healthInterval", "time between two looks at the health of all feeds, unless feeds are polled more often", "changes are told that much later"},
		{"internal/daemon", "maxPause failingTarget", "the longest pause between two messages that a user may set; how long a target fails before the doctor says so", "refused with a reason; shorter outages are not reported"},
		{"internal/daemon", "maxTokens maxTokenName:B maxTokensFile:B", "tokens with which others make searches; the name of one; the file of tokens", "refused with a reason; set aside as damaged"},
		{"internal/daemon", "defaultTokenSearches maxTokenSearches", "searches of a token for which no number is given; the most that can be given", "refused with a reason"},
		{"internal/daemon", "tokenBurst tokenPause tokenCheck", "requests with one token at once; time between two after that; time between two looks for expired tokens", "the status 429; the searches of an expired token end that much later"},
		{"proxy", "wrongTokens wrongTokensBurst", "wrong tokens in a second that get a reason; at once", "the status 429; valid tokens are not affected"},
		{"internal/xmpp", "maxStanza:B maxText:B maxDevices", "a stanza of the XMPP server; a message of a contact; clients of one contact", "the session ends and begins anew; the rest is ignored; the oldest is forgotten"},
		{"internal/xmpp", "messageRate messageBurst", "messages a second to all contacts of the messenger; at once", "the others wait"},
		{"internal/xmpp", "loginTime confirmTime writeTime", "a login; the confirmation of a message by the contact's client; how long the server may take nothing", "tried again; the message is sent again later; the session ends and begins anew"},
		{"internal/daemon", "maxContacts maxContactsFile:B", "contacts of the messenger that follow something; the file of contacts", "refused with a reason; set aside as damaged"},
		{"internal/daemon", "commandBurst commandPause maxHeard commandTime", "commands of one contact at once; time between two after that; commands of all contacts that wait; one command", "refused with a reason; dropped without an answer; refused with a reason"},
		{"internal/daemon", "maxTalks maxListed:B", "accounts whose commands are counted; the answer to `list`", "counted anew; it ends with the number of further lines"},
		{"internal/daemon", "maxSingles messagePause maxNewest maxCounted", "pieces of news that a contact is told one by one; time between two messages; pieces of news that a digest names; feeds and searches that it counts", "told as one digest; the next waits; only counted; counted together"},
		{"internal/news", "maxUnstored", "events that a target does not want and that are not noted on disk", "they are noted"},
		{"internal/daemon", "maxMarkedArticles", "articles that matched a search and wait to be recorded as events", "only those become events that the feed of the search still has"},
		{"internal/daemon", "maxSighted maxSightedItems", "feeds whose last documents are remembered; items of each", "further ones count as found by other nodes"},
		{"internal/daemon", "recordPause maxRecordPause", "the shortest and the longest pause between two records of news; a pause is four times as long as the record before it", "people and programs are told of a burst that much later"},
		{"internal/daemon", "maxMarkedItems", "changed items that the journal has not recorded yet", "a feed with further ones is recorded as a whole, and they count as found by other nodes"},
		{"internal/daemon", "maxPollers", "pollers of a feed that its page shows", "those farther from its key are left out"},
		{"internal/news", "maxDelay", "time from the date of an item to its arrival that counts as a delay", "the delay is not known"},
		{"proxy", "pollNowGap maxPollWishes", "time after a poll or a wish for one until a person can wish for another; wishes that are remembered", "refused with the time; the oldest is forgotten"},
		{"proxy", "maxPageText:B maxPageItems maxDelayDots", "texts of items on the page of a feed; its items; dots of its plot", "the item is shown without its text; left out; older ones are left out"},
		{"proxy", "maxDraft:B maxRequest:B", "a request to publish; any other request", "refused"},
		{"proxy", "maxSelection:B", "a form with selected subscriptions", "refused"},
		{"proxy", "cacheBytes:B", "rendered feeds in memory", "the oldest is dropped"},
		{"proxy", "maxPastVersions", "earlier versions of a feed since which a reader can get what is new", "the reader gets the whole feed"},
		{"proxy", "maxDiscovered discoverTime", "entries of an imported list that are inspected; time for all of them", "the others are subscribed to as they are; of bookmarks, no more can be chosen at a time"},
		{"proxy", "parallelInspections parallelImports", "addresses of an imported list that are inspected, and subscribed to, at the same time", "the others wait"},
		{"proxy", "maxListPart", "subscriptions in one answer of the API with a limit", "the list goes on with the next one"},
		{"internal/daemon", "maxListRead maxLogsRead", "subscriptions that one request for a part of a filtered list looks at; logs that a whole list reads", "the list goes on with the next request; a feed is listed without its own title until its log is read"},
		{"proxy", "maxImports", "imports that run, wait, or have ended last", "the oldest that has ended is forgotten; if none has, a further one is refused"},
		{"proxy", "maxRequests", "requests to find the feed of a page, redirects included", "the page's other feeds are offered without a check"},
		{"proxy", "maxCodes", "addresses of `tidings open` not used yet", "the oldest stops working"},
	}},
}

const limitsFile = "docs/design/limits.md"

// TestLimits compares docs/design/limits.md with the constants. "go test . -run TestLimits -update" rewrites it.
func TestLimits(t *testing.T) {
	var table strings.Builder
	for _, section := range limits {
		fmt.Fprintf(&table, "\n## %s\n\n| constants | value | bounds | at the limit |\n|---|---|---|---|\n", section.title)
		for _, l := range section.rows {
			var names, values []string
			for name := range strings.FieldsSeq(l.names) {
				name, bytes := strings.CutSuffix(name, ":B")
				v, err := sources.constant(l.pkg, name)
				if err != nil {
					t.Errorf("%s.%s: %v", l.pkg, name, err)
					continue
				}
				names, values = append(names, "`"+name+"`"), append(values, v.text(bytes))
			}
			fmt.Fprintf(&table, "| `%s`: %s | %s | %s | %s |\n", l.pkg, strings.Join(names, ", "), strings.Join(values, ", "), l.what, l.then)
		}
	}
	compareGenerated(t, limitsFile, table.String())
}

// compareGenerated compares what stands between the two marks of a document with what it should be, or
// writes it there.
func compareGenerated(t *testing.T, name, want string) {
	t.Helper()
	const from, to = "<!-- generated: go test . -update -->\n", "<!-- end of the generated part -->"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), from)
	got, tail, ended := strings.Cut(rest, to)
	if !ok || !ended {
		t.Fatalf("%s has no lines %q and %q", name, from, to)
	}
	if want += "\n"; got == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the code says; run: go test . -update", name)
	}
	if err := os.WriteFile(name, []byte(head+from+want+to+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A value is that of a constant.
type value struct {
	constant.Value
	duration bool // its unit is a nanosecond
}

// text writes a value for people.
func (v value) text(bytes bool) string {
	n, exact := constant.Int64Val(constant.ToInt(v.Value))
	switch {
	case v.duration:
		d := time.Duration(n)
		for _, u := range []struct {
			of   time.Duration
			name string
		}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
			if d >= u.of && d%u.of == 0 {
				return fmt.Sprintf("%d %s", d/u.of, u.name)
			}
		}
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case !exact:
		return v.String()
	case bytes && n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case bytes && n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case bytes && n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	case bytes:
		return grouped(n) + " B"
	default:
		return grouped(n)
	}
}

// grouped writes 65536 as 65,536.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// A constants reads constants from the sources of packages.
type constants map[string]map[string]expression

// An expression is what a constant is declared as.
type expression struct {
	ast.Expr
	iota int
}

var sources = constants{}

// constant returns the value of a constant of a package of this module.
func (c constants) constant(pkg, name string) (value, error) {
	if c[pkg] == nil {
		if err := c.read(pkg); err != nil {
			return value{}, err
		}
	}
	e, ok := c[pkg][name]
	if !ok {
		return value{}, fmt.Errorf("no such constant")
	}
	return c.eval(pkg, e)
}

// read parses the declarations of constants of a package.
func (c constants) read(pkg string) error {
	files, err := filepath.Glob(pkg + "/*.go")
	if err != nil {
		return err
	}
	c[pkg] = map[string]expression{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			var last []ast.Expr
			for i, s := range group.Specs {
				s := s.(*ast.ValueSpec)
				if s.Values != nil {
					last = s.Values
				}
				for j, n := range s.Names {
					if j < len(last) {
						c[pkg][n.Name] = expression{last[j], i}
					}
				}
			}
		}
	}
	return nil
}

// eval computes a constant expression: literals, other constants, times, conversions and operators.
func (c constants) eval(pkg string, e expression) (value, error) {
	switch x := e.Expr.(type) {
	case *ast.BasicLit:
		return value{Value: constant.MakeFromLiteral(x.Value, x.Kind, 0)}, nil
	case *ast.ParenExpr:
		return c.eval(pkg, expression{x.X, e.iota})
	case *ast.CallExpr: // a conversion
		if len(x.Args) == 1 {
			return c.eval(pkg, expression{x.Args[0], e.iota})
		}
	case *ast.Ident:
		if x.Name == "iota" {
			return value{Value: constant.MakeInt64(int64(e.iota))}, nil
		}
		return c.constant(pkg, x.Name)
	case *ast.SelectorExpr:
		of, ok := x.X.(*ast.Ident)
		if d, known := times[x.Sel.Name]; ok && known && of.Name == "time" {
			return value{constant.MakeInt64(int64(d)), true}, nil
		}
		for _, dir := range []string{"internal/" + of.Name, of.Name, "overlay/" + of.Name} {
			if v, err := c.constant(dir, x.Sel.Name); err == nil {
				return v, nil
			}
		}
	case *ast.BinaryExpr:
		l, err := c.eval(pkg, expression{x.X, e.iota})
		if err != nil {
			return value{}, err
		}
		r, err := c.eval(pkg, expression{x.Y, e.iota})
		if err != nil {
			return value{}, err
		}
		if x.Op == token.SHL || x.Op == token.SHR {
			by, _ := constant.Uint64Val(r.Value)
			return value{constant.Shift(constant.ToInt(l.Value), x.Op, uint(by)), l.duration}, nil
		}
		op := x.Op
		if op == token.QUO && l.Kind() == constant.Int && r.Kind() == constant.Int {
			op = token.QUO_ASSIGN // whole numbers
		}
		return value{constant.BinaryOp(l.Value, op, r.Value), l.duration || r.duration}, nil
	}
	return value{}, fmt.Errorf("%T is no expression that this test knows", e.Expr)
}

var times = map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
