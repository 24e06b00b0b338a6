"""`phalanx coldstart`: what waking a target from zero costs, before anybody lets it sleep."""
