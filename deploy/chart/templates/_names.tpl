{{- define "phalanx.image" -}}
{{- $tag := .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{- with .root.Values.image.registry }}{{ . }}/{{ end }}{{ .root.Values.image.repository }}-{{ .service }}:{{ $tag }}
{{- end }}

{{- define "phalanx.labels" -}}
app.kubernetes.io/name: phalanx
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "phalanx.selector" -}}
app.kubernetes.io/name: phalanx
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "phalanx.natsUrl" -}}
{{- if .Values.nats.url }}{{ .Values.nats.url }}{{ else }}
{{- $urls := list }}
{{- range $index := until (int .Values.nats.replicas) }}
{{- $urls = append $urls (printf "nats://phalanx-nats-%d.phalanx-nats.%s.svc:4222" $index $.Release.Namespace) }}
{{- end }}
{{- join "," $urls }}
{{- end }}
{{- end }}

{{/* What every pod has in common. */}}
{{- define "phalanx.podSettings" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- if .root.Values.priorityClass.name }}
priorityClassName: {{ .root.Values.priorityClass.name }}
{{- end }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "phalanx.selector" . | nindent 8 }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "phalanx.selector" . | nindent 8 }}
{{- end }}

{{- define "phalanx.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
