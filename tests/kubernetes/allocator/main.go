// Allocator answers questions about devices as kube-scheduler's structured allocator does: what ours is compared with.
//
// Each line of standard input is one question, a JSON object:
//
//	{"node": Node, "slices": [ResourceSlice], "classes": [DeviceClass],
//	 "allocated": [ResourceClaim], "claims": [ResourceClaim]}
//
// Each line of the answer is {"fits": bool, "error": text, "results": [[device, ...], ...]}, where a device is
// {"request", "device", "admin", "consumed"} with "device" as driver/pool/name. A question with "expression" and "device"
// (a Device, with "driver" beside it) asks what a selector says: {"matches": bool, "error": text}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type question struct {
	Node      v1.Node                      `json:"node"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Allocated []*resourceapi.ResourceClaim `json:"allocated"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`

	Expression string             `json:"expression"`
	Driver     string             `json:"driver"`
	Device     resourceapi.Device `json:"device"`
}

type device struct {
	Request  string            `json:"request"`
	Device   string            `json:"device"`
	Admin    bool              `json:"admin"`
	Consumed map[string]string `json:"consumed,omitempty"`
}

type answer struct {
	Fits    bool       `json:"fits"`
	Matches bool       `json:"matches"`
	Error   string     `json:"error"`
	Results [][]device `json:"results,omitempty"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("class %q does not exist", name)
}

// features are those that Kubernetes 1.37 has on by default.
var features = structured.Features{
	AdminAccess:            true,
	ConsumableCapacity:     true,
	DeviceBindingAndStatus: true,
	DeviceTaints:           true,
	PartitionableDevices:   true,
	PrioritizedList:        true,
}

var celFeatures = cel.Features{EnableConsumableCapacity: true}

// state is what allocated claims hold; admin access holds nothing.
func state(claims []*resourceapi.ResourceClaim) structured.AllocatedState {
	found := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil {
				found.AllocatedDevices.Insert(id)
				continue
			}
			found.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				found.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return found
}

func allocate(ctx context.Context, asked *question, cache *cel.Cache) answer {
	allocator, err := structured.NewAllocator(ctx, features, state(asked.Allocated), classes(asked.Classes), asked.Slices, cache)
	if err != nil {
		return answer{Error: err.Error()}
	}
	results, err := allocator.Allocate(ctx, &asked.Node, asked.Claims)
	if err != nil {
		return answer{Error: err.Error()}
	}
	given := answer{Fits: len(results) == len(asked.Claims)}
	for _, result := range results {
		devices := []device{}
		for _, one := range result.Devices.Results {
			consumed := map[string]string{}
			for name, amount := range one.ConsumedCapacity {
				consumed[string(name)] = amount.String()
			}
			devices = append(devices, device{
				Request:  one.Request,
				Device:   one.Driver + "/" + one.Pool + "/" + one.Device,
				Admin:    one.AdminAccess != nil && *one.AdminAccess,
				Consumed: consumed,
			})
		}
		given.Results = append(given.Results, devices)
	}
	return given
}

func judge(ctx context.Context, asked *question, cache *cel.Cache) answer {
	compiled := cache.GetOrCompile(asked.Expression)
	if compiled.Error != nil {
		return answer{Error: compiled.Error.Error()}
	}
	matches, _, err := compiled.DeviceMatches(ctx, cel.Device{
		Driver:                   asked.Driver,
		AllowMultipleAllocations: asked.Device.AllowMultipleAllocations,
		Attributes:               asked.Device.Attributes,
		Capacity:                 asked.Device.Capacity,
	})
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Matches: matches}
}

func main() {
	ctx := context.Background()
	cache := cel.NewCache(1000, celFeatures)
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 64<<20)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var asked question
		given := answer{}
		if err := json.Unmarshal(input.Bytes(), &asked); err != nil {
			given.Error = "cannot read the question: " + err.Error()
		} else if asked.Expression != "" {
			given = judge(ctx, &asked, cache)
		} else {
			given = allocate(ctx, &asked, cache)
		}
		if err := output.Encode(given); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := input.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
