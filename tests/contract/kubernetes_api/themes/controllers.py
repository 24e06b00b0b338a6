"""What the controllers do that gangs depend on: Jobs, Deployments, claims."""

from tests.contract.kubernetes_api.objects import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    claim_template,
    deployment,
    job,
    pod,
)
from tests.contract.kubernetes_api.rows import (
    ANY,
    Contains,
    Count,
    Event,
    Pattern,
    Row,
    Watch,
    delete,
    get,
    merge,
    post,
)

_JOB = post(JOBS, job(), save={"job": "metadata.uid"})
_JOB_PODS = {"labelSelector": "batch.kubernetes.io/job-name=j"}
_OWNED = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "$job", "controller": True}

ROWS = (
    Row(
        name="job-creates-its-pods",
        calls=(
            _JOB,
            get(
                PODS,
                query=_JOB_PODS,
                answer={
                    "items": [
                        {
                            "metadata": {
                                "generateName": "j-",
                                "labels": {
                                    "app": "contract",
                                    "batch.kubernetes.io/job-name": "j",
                                    "batch.kubernetes.io/controller-uid": "$job",
                                    "job-name": "j",
                                    "controller-uid": "$job",
                                },
                                "ownerReferences": [_OWNED],
                                "finalizers": ["batch.kubernetes.io/job-tracking"],
                            },
                            "spec": {"restartPolicy": "Never"},
                        }
                    ]
                    * 2
                },
                eventually=True,
            ),
            get(f"{JOBS}/j", answer={"status": {"active": 2}}, eventually=True),
        ),
        watch=Watch(
            path=PODS,
            events=(
                Event(kind="ADDED", object={"metadata": {"name": Pattern(r"j-[a-z0-9]{5}")}}),
                Event(kind="ADDED", object={"metadata": {"ownerReferences": [_OWNED]}}),
            ),
        ),
    ),
    Row(
        name="job-indexed",
        calls=(
            post(JOBS, job(completionMode="Indexed")),
            get(
                PODS,
                query={**_JOB_PODS},
                answer={
                    "items": Contains(
                        [
                            {
                                "metadata": {
                                    "generateName": f"j-{index}-",
                                    "labels": {"batch.kubernetes.io/job-completion-index": index},
                                    "annotations": {"batch.kubernetes.io/job-completion-index": index},
                                },
                                "spec": {"hostname": f"j-{index}"},
                            }
                            for index in ("0", "1")
                        ]
                    )
                },
                eventually=True,
            ),
        ),
    ),
    Row(
        name="job-passes-group-and-scheduler",
        calls=(
            post(JOBS, job(pods={"schedulingGroup": {"podGroupName": "g"}})),
            get(
                PODS,
                query=_JOB_PODS,
                answer={
                    "items": [
                        {
                            "spec": {
                                "schedulingGroup": {"podGroupName": "g"},
                                "schedulerName": "contract",
                            }
                        }
                    ]
                    * 2
                },
                eventually=True,
            ),
        ),
    ),
    Row(
        name="job-suspended-and-resumed",
        setup=(post(JOBS, job(suspend=True)),),
        calls=(
            get(
                f"{JOBS}/j",
                answer={"status": {"conditions": Contains([{"type": "Suspended", "status": "True"}])}},
                eventually=True,
            ),
            get(PODS, query=_JOB_PODS, answer={"items": []}),
            merge(f"{JOBS}/j", {"spec": {"suspend": False}}),
            get(PODS, query=_JOB_PODS, answer={"items": Count(2)}, eventually=True),
        ),
    ),
    Row(
        name="job-replaces-a-deleted-pod",
        setup=(
            _JOB,
            get(
                PODS,
                query=_JOB_PODS,
                answer={"items": Count(2)},
                save={"first": "items.0.metadata.name"},
                eventually=True,
            ),
        ),
        calls=(
            delete(f"{PODS}/$first"),
            get(f"{PODS}/$first", code=404, eventually=True),
            get(PODS, query=_JOB_PODS, answer={"items": Count(2)}, eventually=True),
        ),
        watch=Watch(path=PODS, events=(Event(kind="DELETED", name="$first"),)),
    ),
    Row(
        name="job-completes",
        setup=(
            post(JOBS, job(parallelism=1, completions=1)),
            get(
                PODS,
                query=_JOB_PODS,
                answer={"items": Count(1)},
                save={"first": "items.0.metadata.name"},
                eventually=True,
            ),
        ),
        calls=(
            merge(f"{PODS}/$first/status", {"status": {"phase": "Succeeded"}}),
            get(
                f"{JOBS}/j",
                answer={
                    "status": {
                        "succeeded": 1,
                        "conditions": Contains([{"type": "Complete", "status": "True"}]),
                        "completionTime": ANY,
                    }
                },
                eventually=True,
            ),
            get(f"{PODS}/$first", absent=("metadata.finalizers",), eventually=True),
        ),
    ),
    Row(
        name="job-fails-at-its-limit",
        setup=(
            post(JOBS, job(parallelism=1, completions=1, backoffLimit=0)),
            get(
                PODS,
                query=_JOB_PODS,
                answer={"items": Count(1)},
                save={"first": "items.0.metadata.name"},
                eventually=True,
            ),
        ),
        calls=(
            merge(f"{PODS}/$first/status", {"status": {"phase": "Failed"}}),
            get(
                f"{JOBS}/j",
                answer={
                    "status": {
                        "failed": 1,
                        "conditions": Contains(
                            [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]
                        ),
                    }
                },
                eventually=True,
            ),
        ),
    ),
    Row(
        name="job-ignores-disrupted-pods",
        setup=(
            post(
                JOBS,
                job(
                    parallelism=1,
                    completions=1,
                    backoffLimit=0,
                    podFailurePolicy={
                        "rules": [
                            {
                                "action": "Ignore",
                                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                            }
                        ]
                    },
                ),
            ),
            get(
                PODS,
                query=_JOB_PODS,
                answer={"items": Count(1)},
                save={"first": "items.0.metadata.name"},
                eventually=True,
            ),
        ),
        calls=(
            merge(
                f"{PODS}/$first/status",
                {
                    "status": {
                        "phase": "Failed",
                        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Undone"}],
                    }
                },
            ),
            get(
                PODS,
                query={**_JOB_PODS, "fieldSelector": "status.phase=Pending"},
                answer={"items": Count(1)},
                eventually=True,
            ),
            get(f"{JOBS}/j", answer={"status": {"active": 1}}, absent=("status.failed",), eventually=True),
        ),
    ),
    Row(
        name="job-deletion-takes-pods",
        setup=(_JOB, get(PODS, query=_JOB_PODS, answer={"items": Count(2)}, eventually=True)),
        calls=(
            delete(f"{JOBS}/j", {"propagationPolicy": "Background"}),
            get(PODS, answer={"items": []}, eventually=True),
        ),
    ),
    Row(
        name="deployment-makes-replica-set-and-pods",
        calls=(
            post(DEPLOYMENTS, deployment(), save={"deployment": "metadata.uid"}),
            get(
                REPLICA_SETS,
                answer={
                    "items": [
                        {
                            "metadata": {
                                "name": Pattern(r"d-[a-z0-9]+"),
                                "ownerReferences": [{"kind": "Deployment", "uid": "$deployment"}],
                                "labels": {"app": "contract", "pod-template-hash": ANY},
                            },
                            "spec": {"replicas": 2},
                        }
                    ]
                },
                save={"set": "items.0.metadata.uid"},
                eventually=True,
            ),
            get(
                PODS,
                query={"labelSelector": "app=contract"},
                answer={
                    "items": [
                        {
                            "metadata": {
                                "name": Pattern(r"d-[a-z0-9]+-[a-z0-9]{5}"),
                                "ownerReferences": [{"kind": "ReplicaSet", "uid": "$set", "controller": True}],
                            }
                        }
                    ]
                    * 2
                },
                eventually=True,
            ),
        ),
    ),
    Row(
        name="deployment-follows-its-scale",
        setup=(
            post(DEPLOYMENTS, deployment(replicas=0)),
            get(REPLICA_SETS, answer={"items": Count(1)}, eventually=True),
        ),
        calls=(
            merge(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}),
            get(PODS, answer={"items": Count(3)}, eventually=True),
            merge(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 1}}),
            get(PODS, answer={"items": Count(1)}, eventually=True),
        ),
    ),
    Row(
        name="deployment-counts-ready-pods",
        setup=(
            post(DEPLOYMENTS, deployment(replicas=1)),
            get(
                PODS,
                answer={"items": Count(1)},
                save={"first": "items.0.metadata.name"},
                eventually=True,
            ),
        ),
        calls=(
            merge(
                f"{PODS}/$first/status",
                {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
            ),
            get(
                f"{DEPLOYMENTS}/d",
                answer={"status": {"readyReplicas": 1, "replicas": 1}},
                eventually=True,
            ),
        ),
    ),
    Row(
        name="claim-from-template",
        setup=(post(CLAIM_TEMPLATES, claim_template()),),
        calls=(
            post(
                PODS,
                pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]),
                save={"pod": "metadata.uid"},
            ),
            get(
                f"{PODS}/p",
                answer={
                    "status": {
                        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": Pattern(r"p-gpu-[a-z0-9]{5}")}]
                    }
                },
                save={"claim": "status.resourceClaimStatuses.0.resourceClaimName"},
                eventually=True,
            ),
            get(
                f"{CLAIMS}/$claim",
                answer={
                    "metadata": {
                        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
                        "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "$pod", "controller": True}],
                    },
                    "spec": {
                        "devices": {
                            "requests": [
                                {
                                    "name": "gpu",
                                    "exactly": {"allocationMode": "ExactCount", "count": 1},
                                }
                            ]
                        }
                    },
                },
            ),
        ),
    ),
    Row(
        name="claim-goes-with-its-pod",
        setup=(
            post(CLAIM_TEMPLATES, claim_template()),
            post(PODS, pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])),
            get(CLAIMS, answer={"items": Count(1)}, eventually=True),
        ),
        calls=(delete(f"{PODS}/p"), get(CLAIMS, answer={"items": []}, eventually=True)),
    ),
)
