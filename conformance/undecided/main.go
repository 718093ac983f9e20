// Command undecided judges a history that etcd's robustness suite has left, because its checker ran
// out of time. The checker is the suite's own; what it is given is bounded better.
//
// The server under test answers reads while its log is held up, which etcd does not. So a history of
// it can have dozens of writes that wait, without an answer, beside reads that go on; the checker would
// try each order of each subset of them. The revisions tell which were before which: see bounds.go.
//
// It ends with 0 where the history is sound, with 1 where it is not, and with 2 where that is still
// not known.
package main

import (
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
	"go.uber.org/zap"
)

// patience is the suite's own.
const patience = 5 * time.Minute

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: undecided FOLDER")
		os.Exit(2)
	}
	result, err := judge(os.Args[1])
	if err != nil {
		fmt.Println("it cannot be read:", err)
		os.Exit(2)
	}
	switch err := result.Error(); {
	case err == nil:
		fmt.Println("sound")
	case result.Linearization.Status == validate.Timeout || result.Linearization.Status == validate.DeadlineExceeded:
		fmt.Println("undecided:", err)
		os.Exit(2)
	default:
		fmt.Println("not sound:", err)
		os.Exit(1)
	}
}

func judge(folder string) (validate.RobustnessResult, error) {
	var none validate.RobustnessResult
	reports, err := report.LoadClientReports(folder)
	if err != nil {
		return none, err
	}
	traffic, err := report.LoadTrafficDetail(folder)
	if err != nil {
		return none, err
	}
	quiet := zap.NewNop()
	persisted, err := report.LoadClusterPersistedRequests(quiet, folder)
	if err != nil {
		return none, err
	}
	operations := 0
	for _, client := range reports {
		operations += len(client.KeyValue)
	}
	moved, left := bound(reports)
	fmt.Printf("%d operations, %d bounded, %d left out\n", operations, moved, left)
	config := validate.Config{ExpectRevisionUnique: traffic.ExpectUniqueRevision}
	return validate.ValidateAndReturnVisualize(quiet, config, reports, persisted, patience), nil
}
