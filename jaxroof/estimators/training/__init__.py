"""Today's models: does a training run fit, term by term and stage by stage?"""
