package failpoints

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// target is the member that is to be hit.
type target int

const (
	// alone is a cluster's only member.
	alone target = iota
	// leader is the leader of three.
	leader
	// follower is a follower of three.
	follower
	// starting is a member while it starts.
	starting
	// lagging is a follower of three that starts so late that it needs a snapshot.
	lagging
)

// trigger is what is done, again and again, until the member ends.
type trigger func(ctx context.Context, client *clientv3.Client, turn int) error

// way is how a failpoint is reached.
type way struct {
	target  target
	trigger trigger
}

// triggers has all failpoints that etcd's suites know, and those that their neighbours are.
var triggers = map[string]way{
	"afterCommit":               {alone, write},
	"afterStartDBTxn":           {alone, write},
	"afterWritebackBuf":         {alone, write},
	"beforeApplyOneEntryNormal": {alone, write},
	"beforeCommit":              {alone, write},
	"beforeStartDBTxn":          {alone, write},
	"beforeWritebackBuf":        {alone, write},
	"commitAfterPreCommitHook":  {alone, write},
	"commitBeforePreCommitHook": {alone, write},
	"raftAfterSave":             {alone, write},
	"raftBeforeAdvance":         {alone, write},
	"raftBeforeSave":            {alone, write},
	"walAfterSync":              {alone, write},
	"walBeforeSync":             {alone, write},

	"compactAfterAcquiredBatchTxLock":     {alone, compact},
	"compactAfterCommitBatch":             {alone, compact},
	"compactAfterCommitScheduledCompact":  {alone, compact},
	"compactAfterSetFinishedCompact":      {alone, compact},
	"compactBeforeCommitBatch":            {alone, compact},
	"compactBeforeCommitScheduledCompact": {alone, compact},
	"compactBeforeSetFinishedCompact":     {alone, compact},

	"defragBeforeCopy":                {alone, defragment},
	"beforeSendWatchResponse":         {alone, watch},
	"beforeRangeStreamChunk":          {alone, list},
	"beforeApplyOneConfChange":        {alone, addMember},
	"afterIsMemberExist":              {alone, write},
	"beforeCheckpointInLeaseRenew":    {alone, renew},
	"beforeLookupWhenLeaseTimeToLive": {alone, timeToLive},
	"raftBeforeWALSaveSnaphot":        {alone, write},
	"beforePublishing":                {starting, nil},

	"raftBeforeLeaderSend":   {leader, write},
	"raftBeforeFollowerSend": {follower, write},
	"raftDropHeartbeat":      {follower, write},

	"raftBeforeSaveSnap":        {lagging, nil},
	"raftAfterSaveSnap":         {lagging, nil},
	"raftBeforeApplySnap":       {lagging, nil},
	"raftAfterApplySnap":        {lagging, nil},
	"raftAfterWALRelease":       {lagging, nil},
	"applyBeforeOpenSnapshot":   {lagging, nil},
	"snapDBRenameBeforeDirSync": {lagging, nil},
	"snapDBDirSyncError":        {lagging, nil},
	"applyAfterOpenSnapshot":    {lagging, nil},
}

// survived has failpoints whose panic does not end etcd: they are within HTTP handlers, whose
// panics Go's server catches.
var survived = map[string]bool{
	"beforeLookupWhenForwardLeaseTimeToLive": true,
	"beforeServeHTTPLeaseRenew":              true,
	"snapDBDirSyncError":                     true,
	"snapDBRenameBeforeDirSync":              true,
}

func write(ctx context.Context, client *clientv3.Client, turn int) error {
	_, err := client.Put(ctx, fmt.Sprintf("key%d", turn%7), fmt.Sprint(turn))
	return err
}

// batch is the number of rows of a compaction's batch.
const batch = 10

func compact(ctx context.Context, client *clientv3.Client, turn int) error {
	var revision int64
	for i := range 3 * batch {
		response, err := client.Put(ctx, "key", fmt.Sprint(turn, i))
		if err != nil {
			return err
		}
		revision = response.Header.Revision
	}
	_, err := client.Compact(ctx, revision)
	return err
}

func defragment(ctx context.Context, client *clientv3.Client, _ int) error {
	_, err := client.Defragment(ctx, client.Endpoints()[0])
	return err
}

func watch(ctx context.Context, client *clientv3.Client, turn int) error {
	response, err := client.Put(ctx, "watched", fmt.Sprint(turn))
	if err != nil {
		return err
	}
	watched := <-client.Watch(ctx, "watched", clientv3.WithRev(response.Header.Revision))
	return watched.Err()
}

func list(ctx context.Context, client *clientv3.Client, _ int) error {
	if _, err := client.Put(ctx, "listed", ""); err != nil {
		return err
	}
	chunks, err := client.GetStream(ctx, "listed")
	if err != nil {
		return err
	}
	_, err = clientv3.GetStreamToGetResponse(chunks)
	return err
}

func addMember(ctx context.Context, client *clientv3.Client, turn int) error {
	_, err := client.MemberAddAsLearner(ctx, []string{fmt.Sprintf("http://127.0.0.1:%d", 1+turn)})
	return err
}

func renew(ctx context.Context, client *clientv3.Client, _ int) error {
	lease, err := client.Grant(ctx, 100)
	if err != nil {
		return err
	}
	_, err = client.KeepAliveOnce(ctx, lease.ID)
	return err
}

func timeToLive(ctx context.Context, client *clientv3.Client, _ int) error {
	lease, err := client.Grant(ctx, 100)
	if err != nil {
		return err
	}
	_, err = client.TimeToLive(ctx, lease.ID)
	return err
}
