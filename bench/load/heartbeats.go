package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions of a group's requests that are spoken by hand: those before KIP-394's second JoinGroup.
const (
	findCoordinatorVersion = 2
	joinGroupVersion       = 3
	syncGroupVersion       = 2
	heartbeatVersion       = 2
	leaveGroupVersion      = 2

	sessionMillis   = 45_000
	rebalanceMillis = 60_000
)

// heartbeats joins j.groups groups of one member, each on a connection of its own, and lets every member send
// j.requests Heartbeats, one each j.every.
func heartbeats(ctx context.Context, j job) (result, error) {
	lines, closed, err := dialAll(ctx, j.broker, j.groups)
	if err != nil {
		return result{}, err
	}
	lanes, leaving := make([]lane, len(lines)), make([]func(), len(lines))
	failures := make([]error, askedAtOnce)
	var all sync.WaitGroup
	for worker := range askedAtOnce {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := worker; i < len(lines) && failures[worker] == nil; i += askedAtOnce {
				lanes[i], leaving[i], failures[worker] = lines[i].joined(ctx, groupOf(j, i))
			}
		}()
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		closed()
		return result{}, err
	}
	measured, err := releasedLanes(ctx, j, lanes)
	measured.after = func() { // Else a thousand sessions would time out under later measurements.
		for _, leave := range leaving {
			leave()
		}
		closed()
	}
	return measured, err
}

// joined makes the connection's client the only member of a group; the lane sends its heartbeats, the function leaves.
func (t *talk) joined(ctx context.Context, group string) (lane, func(), error) {
	var beat *kmsg.HeartbeatRequest
	err := again(ctx, func() (bool, error) {
		request, code, err := t.join(group)
		beat = request
		waits := []int16{kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.NotCoordinator.Code}
		if err != nil || slices.Contains(waits, code) {
			return false, err
		}
		return code == 0, kerr.ErrorForCode(code)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("joining %s: %w", group, err)
	}
	answer := kmsg.NewPtrHeartbeatResponse()
	answer.SetVersion(heartbeatVersion)
	request := func(int) error {
		if err := t.call(beat, answer); err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.ErrorCode)
	}
	return request, func() { t.leave(group, beat.MemberID) }, nil
}

// leave takes a member out of its group; where that fails, its session ends later.
func (t *talk) leave(group, member string) {
	request, answer := kmsg.NewPtrLeaveGroupRequest(), kmsg.NewPtrLeaveGroupResponse()
	request.SetVersion(leaveGroupVersion)
	answer.SetVersion(leaveGroupVersion)
	request.Group, request.MemberID = group, member
	_ = t.call(request, answer)
}

// join tries to join once; it returns the member's Heartbeat, or the code of the step that was refused.
func (t *talk) join(group string) (*kmsg.HeartbeatRequest, int16, error) {
	find, found := kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrFindCoordinatorResponse()
	find.SetVersion(findCoordinatorVersion)
	found.SetVersion(findCoordinatorVersion)
	find.CoordinatorKey = group
	if err := t.call(find, found); err != nil || found.ErrorCode != 0 {
		return nil, found.ErrorCode, err
	}
	join, joined := kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrJoinGroupResponse()
	join.SetVersion(joinGroupVersion)
	joined.SetVersion(joinGroupVersion)
	join.Group, join.ProtocolType = group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = sessionMillis, rebalanceMillis
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", []byte{}
	join.Protocols = append(join.Protocols, protocol)
	if err := t.call(join, joined); err != nil || joined.ErrorCode != 0 {
		return nil, joined.ErrorCode, err
	}
	assign, synced := kmsg.NewPtrSyncGroupRequest(), kmsg.NewPtrSyncGroupResponse()
	assign.SetVersion(syncGroupVersion)
	synced.SetVersion(syncGroupVersion)
	assign.Group, assign.Generation, assign.MemberID = group, joined.Generation, joined.MemberID
	assignment := kmsg.NewSyncGroupRequestGroupAssignment()
	assignment.MemberID, assignment.MemberAssignment = joined.MemberID, []byte{}
	assign.GroupAssignment = append(assign.GroupAssignment, assignment)
	if err := t.call(assign, synced); err != nil || synced.ErrorCode != 0 {
		return nil, synced.ErrorCode, err
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.SetVersion(heartbeatVersion)
	beat.Group, beat.Generation, beat.MemberID = group, joined.Generation, joined.MemberID
	return beat, 0, nil
}
